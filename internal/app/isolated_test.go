package app

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/isolation"
)

func TestAToolThatCannotWorkInAWorkerIsRefusedBeforeItIsCalled(t *testing.T) {
	if _, err := (isolated{}).work("memory.write"); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// workersFunc is workers of a test.
type workersFunc func(context.Context, isolation.Job) ([]byte, error)

func (f workersFunc) Do(ctx context.Context, j isolation.Job) ([]byte, error) { return f(ctx, j) }

func TestWhatAWorkerAnswersIsWhatTheToolSays(t *testing.T) {
	for name, c := range map[string]struct {
		answer    string
		err       error
		text      string
		failed    string
		unsettled bool
	}{
		"a text":          {answer: `{"text":"hi"}`, text: "hi"},
		"nothing to say":  {answer: `{}`},
		"an error":        {answer: `{"error":"no such file","hint":"look"}`, failed: "no such file"},
		"garbage":         {answer: `hi`, failed: "none", unsettled: true},
		"nothing at all":  {failed: "none", unsettled: true},
		"no answer":       {err: isolation.ErrNoAnswer, failed: "no answer", unsettled: true},
		"no worker":       {err: isolation.ErrBusy, failed: "no worker"},
		"no worker, ever": {err: isolation.ErrUnavailable, failed: "isolated"},
	} {
		i := isolated{workers: workersFunc(func(context.Context, isolation.Job) ([]byte, error) {
			return []byte(c.answer), c.err
		})}
		run, err := i.work("fs.read")
		if err != nil {
			t.Fatal(err)
		}
		text, err := run(t.Context(), json.RawMessage(`{"path":"a"}`))
		if text != c.text || (err != nil) != (c.failed != "") || errors.Is(err, tools.ErrUnsettled) != c.unsettled ||
			err != nil && !strings.Contains(err.Error(), c.failed) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if name == "an error" && corebot.HintOf(err) != "look" {
			t.Errorf("the hint is %q", corebot.HintOf(err))
		}
	}
}

func TestNobodyElseWritesAFileWhileAWorkerChangesIt(t *testing.T) {
	root, err := rootfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only a test's
	for _, tool := range []string{"fs.write", "fs.edit"} {
		written := make(chan error, 1)
		i := isolated{root: root, workers: workersFunc(func(_ context.Context, j isolation.Job) ([]byte, error) {
			go func() { written <- root.Write("a", []byte("by another")) }()
			select {
			case <-written:
				t.Errorf("%s: the file was written meanwhile", tool)
				written <- nil
			case <-time.After(50 * time.Millisecond): // none is needed where it holds
			}
			if j.Access != isolation.WriteFiles || j.Timeout != fileTime {
				t.Errorf("the job is %+v", j)
			}
			return []byte(`{}`), nil
		})}
		run, err := i.work(tool)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run(t.Context(), json.RawMessage(`{"path":"./a"}`)); err != nil {
			t.Error(err)
		}
		if err := <-written; err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

func FuzzNoErrandCrashesAWorker(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"tool":"fs.read","args":{"path":"x"}}`, `{"tool":"fs.read","args":7}`,
		`{"tool":"web.fetch","args":{"url":"http://x/"},"web":{"targets":{"Domains":["*"],"Ports":[80]},` +
			`"timeout":1000000}}`, `[`,
	} {
		f.Add([]byte(seed))
	}
	f.Chdir(f.TempDir())
	nowhere := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("there is nobody") }
	f.Fuzz(func(t *testing.T, input []byte) {
		text, err := runErrand(t.Context(), input, nowhere)
		if err != nil && text != "" {
			t.Errorf("%q: %q and %v", input, text, err)
		}
	})
}

func TestADocumentThatIsTooMuchForItsWorkerIsAnError(t *testing.T) {
	for answer, want := range map[string]string{
		"":                             "the PDF document cannot be read: it needs more than 10s or too much memory",
		`{"error":"it is encrypted"}`:  "it is encrypted",
		`{"text":"Green tea, 80 °C."}`: "",
	} {
		d := pdfWorker{workersFunc(func(_ context.Context, j isolation.Job) ([]byte, error) {
			if answer == "" {
				return nil, isolation.ErrNoAnswer
			}
			return []byte(answer), nil
		})}
		text, err := d.Text(t.Context(), []byte("%PDF-"))
		if want != "" && (err == nil || err.Error() != want || errors.Is(err, tools.ErrUnsettled)) ||
			want == "" && (err != nil || text != "Green tea, 80 °C.") {
			t.Errorf("%s: %q, %v", answer, text, err)
		}
	}
}
