package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// errand is what a worker is told to do for a tool, and all that it is told.
type errand struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
	Web   *webErrand      `json:"web,omitempty"`
	Quota rootfs.Quota    `json:"quota,omitzero"`  // of what it writes
	File  string          `json:"file,omitempty"`  // that it writes
	Share *rootfs.Share   `json:"share,omitempty"` // of the sender, in the folder of the file
}

// webErrand is what a worker must know to fetch.
type webErrand struct {
	Targets egress.Targets `json:"targets"`
	Timeout time.Duration  `json:"timeout"`
	MaxBody int64          `json:"maxBody"`
}

// outcome is what a worker answers.
type outcome struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// ServeTool is a worker's life that does one errand: the whole process, behind the walls. It gives the exit code.
func ServeTool() int {
	return isolation.Serve(func(ctx context.Context, input []byte, connect isolation.Dialer) []byte {
		text, err := runErrand(ctx, input, connect)
		o := outcome{Text: text}
		if err != nil {
			o = outcome{Error: err.Error(), Hint: corebot.HintOf(err)}
		}
		answer, err := json.Marshal(o)
		if err != nil {
			return nil // which is no outcome, and so taken for none
		}
		return answer
	})
}

func runErrand(ctx context.Context, input []byte, connect isolation.Dialer) (string, error) {
	var e errand
	if err := json.Unmarshal(input, &e); err != nil {
		return "", fmt.Errorf("%w: a worker's job: %w", corebot.ErrInvalid, err)
	}
	if e.Web != nil {
		return fetch(ctx, e, connect)
	}
	root, err := rootfs.NewBounded(".", pageLimit, e.Quota)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // the process ends
	if e.Share != nil {
		if _, err := root.SetShare(e.File, *e.Share); err != nil {
			return "", err
		}
	}
	for _, tool := range []tools.Tool{builtin.Read(root), builtin.List(root), builtin.Write(root), builtin.Edit(root)} {
		if tool.Name() == e.Tool {
			return tool.Work(ctx, e.Args)
		}
	}
	return "", fmt.Errorf("%w: no worker can do the work of %s", corebot.ErrInvalid, e.Tool)
}

func fetch(ctx context.Context, e errand, connect isolation.Dialer) (string, error) {
	limits := egress.Options{Timeout: e.Web.Timeout, MaxBody: e.Web.MaxBody, Redirects: maxRedirects}
	limits.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if refused := (*isolation.Refused)(nil); errors.As(err, &refused) {
			err = refusal{refused}
		}
		return conn, err
	}
	client, err := egress.New(e.Web.Targets, limits)
	if err != nil {
		return "", err
	}
	return builtin.WebFetch(client, e.Web.Timeout).Work(ctx, e.Args)
}

// refusal is one that was said in another process, whose text has the word already.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == egress.ErrRefused }
