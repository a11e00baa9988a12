package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// patience is how long a whole demonstration may take.
const patience = time.Minute

// offline is the model of all scenes but one.
const offline = "COREBOT_LLM_OFFLINE=true"

// Options of a demonstration.
type Options struct {
	Binary string            // the corebot that is shown
	Dir    string            // an empty directory; the home is below it
	Tell   func(Scene) error // is handed each scene as it ends
}

// Home is where the home of a demonstration in dir is.
func Home(dir string) string { return (&program{dir: dir}).home() }

// demo is one demonstration.
type demo struct {
	*program
	client *load.Client
	said   map[string]int // how many replies each chat was promised, over all scenes
}

// Run plays all scenes. A count that is wrong is in the report; an error is what kept a scene from its end.
func Run(ctx context.Context, o Options) (report Report, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not come about within %v", patience))
	defer cancel()
	ctx, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	began := time.Now()
	d := &demo{
		program: &program{binary: o.Binary, dir: o.Dir, addr: anyPort, model: []string{offline}, ended: ended},
		said:    map[string]int{},
	}
	defer d.end()
	if err := d.open(ctx); err != nil {
		return report, err
	}
	defer d.client.Close()
	for _, play := range []func(context.Context) (Scene, error){
		d.messages, d.sideEffects, d.deadLetter, d.books,
	} {
		s, err := play(ctx)
		if err != nil {
			return report, err
		}
		report.Counts += len(s.Counts)
		report.Wrong += s.Wrong()
		report.Kills, report.Seconds = d.kills, time.Since(began).Seconds()
		if err := o.Tell(s); err != nil {
			return report, err
		}
	}
	return report, nil
}

// open makes the home and starts Corebot.
func (d *demo) open(ctx context.Context) error {
	if _, err := d.run(ctx, "init", "--webhook"); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(d.home(), "webhook.token"))
	if err != nil {
		return fmt.Errorf("read the webhook's token: %w", err)
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	d.client = load.NewClient("http://"+d.addr, strings.TrimSpace(string(token)))
	return nil
}

// end ends the serving process for good. The demonstration counts no kill then.
func (d *demo) end() {
	kills := d.kills
	d.kill()
	d.kills = kills
}

// replies reads what a chat was told from the first, until there are n messages or more.
func (d *demo) replies(ctx context.Context, chat string, n int) (all []load.Reply, err error) {
	for after := ""; ; {
		page, next, err := d.client.Replies(ctx, chat, after, waitFor(len(all) < n))
		if err != nil {
			return nil, err
		}
		all, after = append(all, page...), next
		if len(page) == 0 && len(all) >= n {
			return all, nil
		}
	}
}

// waitFor is how long one request waits for a reply: not at all if there are enough.
func waitFor(more bool) time.Duration {
	if more {
		return 5 * time.Second
	}
	return 0
}

// rows runs a command that prints one JSON object a line.
func rows[T any](ctx context.Context, p *program, args ...string) (all []T, err error) {
	out, err := p.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		var row T
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, errors.Join(fmt.Errorf("corebot %s printed %q", strings.Join(args, " "), line), err)
		}
		all = append(all, row)
	}
	return all, nil
}
