package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// fileTime is how long a tool may work on files in a worker, in which it does milliseconds of work. As long, others who
// write the same file wait.
const fileTime = 10 * time.Second

// isolated has the tools that isolation.tools names do their work in workers. Everything else of a call stays here: the
// checks, the journal, the audit, the locks on files, the connections.
type isolated struct {
	workers workers
	root    *rootfs.Root
	places  roots.List
	web     config.Web
	quota   rootfs.Quota
}

// workers do jobs. An error that is isolation.ErrNoAnswer leaves open what was done; with any other nothing was, or ctx
// has ended.
type workers interface {
	Do(ctx context.Context, j isolation.Job) (answer []byte, err error)
}

var _ workers = (*isolation.Runner)(nil)

// isolate puts the workers of isolation.tools in the place of tools.
func (a *App) isolate(all []tools.Tool, runner *isolation.Runner, root *rootfs.Root) error {
	i := isolated{runner, root, a.disk.List(), a.config.Tools.Web, chatQuota(a.config.Tools)}
	for at, tool := range all {
		if !slices.Contains(a.config.Isolation.Tools.Values(), tool.Name()) {
			continue
		}
		run, err := i.work(tool.Name())
		if err != nil {
			return err
		}
		all[at] = tool.Elsewhere(run)
	}
	return nil
}

// work is how a tool's work is done.
func (i isolated) work(tool string) (func(context.Context, json.RawMessage) (string, error), error) {
	job := isolation.Job{Tool: tool, Timeout: fileTime}
	switch tool {
	case "fs.read", "fs.list":
		job.Access = isolation.ReadFiles
	case "fs.write", "fs.edit":
		job.Access = isolation.WriteFiles
		return func(ctx context.Context, args json.RawMessage) (string, error) {
			path, release, err := i.hold(args)
			if err != nil {
				return "", err
			}
			defer release()
			e := errand{Tool: tool, Args: args, Quota: i.quota, File: path}
			if share, ok := i.root.ShareOf(path); ok {
				e.Share = &share
			}
			return i.send(ctx, job, e)
		}, nil
	case "web.fetch":
		return i.fetches(job)
	default:
		return nil, fmt.Errorf("%w: isolation.tools: %s cannot work in a worker", corebot.ErrInvalid, tool)
	}
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		if _, err := i.inWorkspace(args); err != nil {
			return "", err
		}
		return i.send(ctx, job, errand{Tool: tool, Args: args})
	}, nil
}

// inWorkspace is the path that a call names. A worker has no directory but the workspace.
func (i isolated) inWorkspace(args json.RawMessage) (path string, err error) {
	var file struct{ Path string }
	if err := json.Unmarshal(args, &file); err != nil {
		return "", fmt.Errorf("%w: %w", corebot.ErrInvalid, err)
	}
	if p, err := i.places.Find(file.Path); file.Path != "" && err == nil && !p.InWorkspace() {
		return "", corebot.WithHint(fmt.Errorf("%s is not in the workspace, and a worker reaches nothing else", p),
			"an operator takes this tool out of isolation.tools")
	}
	return file.Path, nil
}

// hold keeps all others from the file that a call changes. A worker has no part in the locks that a change otherwise
// takes.
func (i isolated) hold(args json.RawMessage) (path string, release func(), err error) {
	if path, err = i.inWorkspace(args); err == nil {
		release, err = i.root.Hold(path)
	}
	return path, release, err
}

// fetches: the worker reads what comes, and has no network. Each connection that it asks for is made here, by the rules
// for addresses.
func (i isolated) fetches(job isolation.Job) (func(context.Context, json.RawMessage) (string, error), error) {
	targets, err := i.web.Targets()
	if err != nil {
		return nil, err
	}
	client, err := egress.New(targets, egress.Options{})
	if err != nil {
		return nil, err
	}
	job.Timeout = i.web.Timeout + time.Second
	job.Readable, job.Env = certificates()
	job.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := client.Dial(ctx, network, address)
		if errors.Is(err, egress.ErrRefused) {
			err = &isolation.Refused{Reason: err.Error()}
		}
		return conn, err
	}
	web := &webErrand{targets, i.web.Timeout, i.web.MaxBodyBytes}
	return func(ctx context.Context, args json.RawMessage) (string, error) {
		return i.send(ctx, job, errand{Tool: job.Tool, Args: args, Web: web})
	}, nil
}

// certificates are where systems keep those that https trusts, and the variables that name others.
func certificates() (paths, env []string) {
	paths = []string{
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
		"/var/lib/ca-certificates",
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if path := os.Getenv(name); path != "" {
			paths, env = append(paths, path), append(env, name+"="+path)
		}
	}
	return paths, env
}

// send has a worker do an errand. If the worker gives no answer, nobody knows what the errand has done.
func (i isolated) send(ctx context.Context, job isolation.Job, e errand) (string, error) {
	var err error
	if job.Input, err = json.Marshal(e); err != nil {
		return "", fmt.Errorf("encode a job for a worker: %w", err)
	}
	answer, err := i.workers.Do(ctx, job)
	if errors.Is(err, isolation.ErrNoAnswer) {
		return "", fmt.Errorf("%w: %w", tools.ErrUnsettled, err)
	}
	if err != nil {
		return "", err
	}
	var o outcome
	if err := json.Unmarshal(answer, &o); err != nil {
		return "", fmt.Errorf("%w: the worker's answer is none: %w", tools.ErrUnsettled, err)
	}
	if o.Error != "" {
		err = errors.New(o.Error)
		if o.Hint != "" {
			err = corebot.WithHint(err, o.Hint)
		}
	}
	return o.Text, err
}

// pdfWorker has workers read PDF documents. A document that is too much for its worker ends with the worker.
type pdfWorker struct{ workers workers }

// documentTime is how long a worker may read a document.
const documentTime = 10 * time.Second

// Text implements [builtin.Documents].
func (d pdfWorker) Text(ctx context.Context, pdf []byte) (string, error) {
	job := isolation.Job{Tool: "pdf", Timeout: documentTime}
	text, err := isolated{workers: d.workers}.send(ctx, job, errand{Tool: job.Tool, PDF: pdf})
	if errors.Is(err, tools.ErrUnsettled) {
		return "", fmt.Errorf("the PDF document cannot be read: it needs more than %v or too much memory", documentTime)
	}
	return text, err
}

// errand is what a worker is told to do for a tool, and all that it is told.
type errand struct {
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
	Web   *webErrand      `json:"web,omitempty"`
	PDF   []byte          `json:"pdf,omitempty"`   // a document whose text is wanted
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
	switch {
	case e.Web != nil:
		return fetch(ctx, e, connect)
	case e.PDF != nil:
		return builtin.DocumentsHere{}.Text(ctx, e.PDF)
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
	reach := roots.Only(root)
	for _, tool := range []tools.Tool{
		builtin.Read(reach, builtin.DocumentsHere{}), builtin.List(reach), builtin.Write(reach), builtin.Edit(reach),
	} {
		if tool.Name() == e.Tool {
			return tool.Work(ctx, tools.Call{}, e.Args)
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
	return builtin.WebFetch(client, e.Web.Timeout, builtin.DocumentsHere{}).Work(ctx, tools.Call{}, e.Args)
}

// refusal is one that was said in another process, whose text has the word already.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == egress.ErrRefused }
