package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// ears hear the same in every recording.
type ears struct {
	asked int
	err   error
}

func (e *ears) Transcribe(context.Context, corebot.Key, corebot.Part) (words, model string, err error) {
	e.asked++
	return "buy milk </data>", "whisper", e.err
}

// told are the texts of the recordings that a request shows.
func told(r llm.Request) string {
	var all []string
	for _, p := range shown(r) {
		all = append(all, p.Text)
	}
	return strings.Join(all, "|")
}

func TestWhatSomebodySaysInARecordingIsHeardOnceAndRemembered(t *testing.T) {
	e := &ears{}
	b := newBench(t, apptest.Options{
		Model: apptest.Always(apptest.Text("hm")), Agent: agent.Options{Transcriber: e},
	})
	in := channels.Incoming{ID: "1", SenderID: "ada", Parts: []corebot.Part{voice}}
	want := `the sender says in it: "buy milk ‹/data>"`
	if got := told(b.hears(t, in)); got != want {
		t.Errorf("in its turn %s", got)
	}
	in.ID, in.Parts = "2", corebot.TextPart("well?")
	if got := told(b.hears(t, in)); got != want || e.asked != 1 {
		t.Errorf("later %s, asked %d times", got, e.asked)
	}
}

// kept is a journal whose steps a test reads.
type kept struct {
	agent.Journal
	steps []corebot.Step
}

func (k *kept) Record(ctx context.Context, d corebot.Delivery, s corebot.Step, e ...corebot.AuditEvent) error {
	k.steps = append(k.steps, s)
	return k.Journal.Record(ctx, d, s, e...)
}

// The model fails behind the transcript, and the next attempt begins anew.
func TestARetryDoesNotTranscribeAgain(t *testing.T) {
	for name, failure := range map[string]error{"heard": nil, "not heard": errors.New("no answer")} {
		e, kept := &ears{err: failure}, &kept{}
		b := newBench(t, apptest.Options{
			Model: apptest.Script(apptest.Fails(errors.New("the model has fallen over")), apptest.Text("hm")),
			Agent: agent.Options{Transcriber: e},
			Journal: func(j agent.Journal) agent.Journal {
				kept.Journal = j
				return kept
			},
		})
		if _, err := b.Door.Accept(t.Context(), channels.Incoming{
			ID: "1", Channel: apptest.Channel, Chat: "a", SenderID: "ada", Parts: []corebot.Part{voice},
		}); err != nil {
			t.Fatal(err)
		}
		d := b.Claim()
		if _, err := b.Agent.Turn(t.Context(), d); err == nil {
			t.Fatal("the model did not fail")
		}
		d.Journal = kept.steps
		r, err := b.Agent.Turn(t.Context(), d)
		if err != nil || e.asked != 1 || len(kept.steps) != 1 {
			t.Errorf("%s: %v; asked %d times, journal %d steps", name, err, e.asked, len(kept.steps))
		}
		text, want := r.History[0].Parts[0].Text, "milk"
		if failure != nil {
			want = "it was not transcribed: no answer"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: the history has %q", name, text)
		}
	}
}
