package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// tellingTalk has an answer with a secret.
type tellingTalk struct{ Talk }

func (tellingTalk) Answers(_ context.Context, _ corebot.Key, id string, _ int64, _ int) ([]corebot.Posted, error) {
	return []corebot.Posted{{ID: "r", InReplyTo: id, Parts: corebot.TextPart("It is hunter2hunter2, ask-er.")}}, nil
}

// The streamed text of an answer comes without secrets. The end of the answer does not tell it again with them, and
// what goes on in the middle of a word is no secret.
func TestASocketIsToldAnAnswerWithoutItsSecretOnce(t *testing.T) {
	t.Parallel()
	var hub live.Hub
	s := socketServer(t, &hub)
	s.opts.Talk = tellingTalk{}
	s.opts.Redact = func(text string) string { // as the rules do: "sk-er" is one only where a word begins
		text = strings.ReplaceAll(text, "hunter2hunter2", "[redacted]")
		return strings.ReplaceAll(text, `"sk-er`, `"[redacted]`)
	}
	conn := follower(t, s, 0)
	hub.Publish(live.Event{Kind: live.TurnStarted, Key: watched, MessageID: "m"})
	said := ""
	for _, piece := range []string{"It is ", "[redacted], a", "sk-er"} {
		hub.Publish(live.Event{Kind: live.Text, Key: watched, MessageID: "m", Text: piece})
		told := next(t, conn, "text")
		said += *told[len(told)-1].Data
	}
	hub.Publish(live.Event{Kind: live.TurnEnded, Key: watched, MessageID: "m", Text: "answered"})
	for _, e := range next(t, conn, "done") {
		if e.Type == "reset" {
			t.Error("the answer is told again")
		}
		if e.Data != nil {
			said += *e.Data
		}
	}
	if want := "It is [redacted], ask-er."; said != want {
		t.Errorf("it is told %q, want %q", said, want)
	}
}
