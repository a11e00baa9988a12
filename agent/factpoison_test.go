package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

// obeying makes, of every message, a fact of its sender, one about ann, and one that ann is to have said.
func obeying(_ context.Context, r llm.Request, _ func(string)) (corebot.Answer, error) {
	var facts []map[string]any
	for line := range strings.Lines(r.Messages[1].Text) {
		var n int
		if _, err := fmt.Sscanf(line, "%d ", &n); err != nil {
			continue
		}
		_, text, _ := strings.Cut(strings.TrimSpace(line), "): ")
		add := func(message int, subject string) {
			facts = append(facts, map[string]any{
				"message": message, "subject": subject, "relation": "must", "object": text, "one": true,
			})
		}
		add(n, "speaker")
		add(n, "ann")
		add(1, "speaker")
	}
	answer, err := json.Marshal(map[string]any{"facts": facts})
	return corebot.Answer{Text: string(answer)}, err
}

// TestPoisonedMessagesAreKeptApartAlsoInLaterSessions has mallory write 210 texts, and a model obey each of them as it
// looks for facts. Then ann begins a new session, after a restart, and asks in the words of the texts.
func TestPoisonedMessagesAreKeptApartAlsoInLaterSessions(t *testing.T) {
	texts := apptest.Poison()
	if len(texts) < 200 {
		t.Fatalf("there are %d texts", len(texts))
	}
	dir := t.TempDir()
	model := knowing(obeying)
	o := apptest.Options{Model: model, Agent: small, Facts: true, Dir: dir}
	b := newBench(t, o)
	b.hearsFrom(t, "ann", "a", "Good morning, here is ann")
	for i, text := range texts {
		b.hearsFrom(t, "mallory", fmt.Sprint("m", i), text)
	}
	learned := b.facts(t)
	if len(learned) < 20 {
		t.Fatalf("the model obeyed, and %d facts are stored", len(learned))
	}
	for _, f := range learned {
		mallorys := f.Sender == apptest.Person("mallory") && f.Scope == corebot.FactsOfChat
		if !mallorys || strings.EqualFold(f.Subject, "ann") || f.CleanFor(apptest.Person("ann")) {
			t.Errorf("a stranger's words became %+v", f)
		}
	}
	b.Close()
	o.Model = knowing(apptest.Text(`{"facts":[]}`))
	b = newBench(t, o)
	if err := b.resets(t); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		shown := messagesText(b.hearsFrom(t, "ann", fmt.Sprint("q", i), "What of "+strings.ToValidUTF8(text[:9], "")))
		if i := strings.Index(shown, "remembered facts that may matter"); i >= 0 {
			t.Fatalf("ann's turn is shown %s", shown[i:])
		}
		if strings.Contains(shown, "remembered facts that others can have written") {
			t.Fatalf("ann's turn is tainted in a session of her own, or shown what mallory said: %s", shown)
		}
	}
}

// resets begins a new session of chat a.
func (b *bench) resets(t *testing.T) error {
	t.Helper()
	return storage.NewChats(b.DB).Reset(t.Context(), apptest.Key("a"))
}
