package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/redact"
)

// streams is an answer that comes in pieces, with an error behind it or none.
func streams(err error, pieces ...string) apptest.Reply {
	return func(_ context.Context, _ llm.Request, onText func(string)) (corebot.Answer, error) {
		for _, p := range pieces {
			onText(p)
		}
		return corebot.Answer{Text: strings.Join(pieces, ""), Model: "scripted"}, err
	}
}

// An answer that is being made shows no secret, also if the secret comes in two pieces.
func TestASecretInPiecesIsNotShownLive(t *testing.T) {
	hide, err := redact.New([]string{"hunter2hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	var hub live.Hub
	options := agent.Options{Live: &hub, Redactor: hide}
	key := "sk-" + strings.Repeat("aB3", 10)
	b := newBench(t, apptest.Options{Agent: options},
		streams(nil, "It is hunter2", "hunter2, and s", key[1:20], key[20:]))
	b.Say("a", "1", "what is it?")
	d := b.Claim()
	events, stop := hub.Watch(d.Message.Key)
	result, err := b.Agent.Turn(t.Context(), d)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for e := range events {
		if e.Kind == live.Text {
			shown = append(shown, e.Text)
		}
	}
	if got, want := strings.Join(shown, ""), "It is [redacted], and [redacted]"; got != want || shown[0] != "It is " {
		t.Errorf("it shows %q, want %q", shown, want)
	}
	if answer := corebot.TextOf(result.Replies[0].Parts); !strings.HasSuffix(answer, key) {
		t.Errorf("the reply is %q", answer)
	}
}

// A failed attempt leaves nothing that it held back to the next one.
func TestWhatIsHeldBackOfAFailedAttemptIsNeverShown(t *testing.T) {
	var hub live.Hub
	b := newBench(t, apptest.Options{Agent: agent.Options{Live: &hub}}, func(ctx context.Context, r llm.Request,
		onText func(string),
	) (corebot.Answer, error) {
		onText("first sk-")
		r.OnReset()
		return streams(nil, "second")(ctx, r, onText)
	})
	b.Say("a", "1", "go")
	d := b.Claim()
	events, stop := hub.Watch(d.Message.Key)
	if _, err := b.Agent.Turn(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	stop()
	shown := ""
	for e := range events {
		shown += string(e.Kind) + ":" + e.Text + "\n"
	}
	if want := "text:first \ntext_reset:\ntext:second\n"; shown != want {
		t.Errorf("it shows %q, want %q", shown, want)
	}
}
