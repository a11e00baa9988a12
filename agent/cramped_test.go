package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
)

// wordy are as many tools as Corebot has, with as much prose.
func wordy() []tools.Tool {
	var all []tools.Tool
	for _, name := range []string{
		"fs.read", "fs.write", "fs.list", "memory.read", "memory.search", "history.search", "message.send",
		"skills.list", "skills.read",
		"chat.list", "history.read", "message.replies", "fs.edit", "memory.write", "message.publish", "chat.register",
	} {
		prose := "Does what " + name + " does. " + strings.Repeat("There is much to say of it. ", 25)
		all = append(all, tools.New(name, prose, tools.ReadOnly, func(context.Context, tools.Call,
			apptest.ToolArgs,
		) (string, error) {
			return "", nil
		}))
	}
	return all
}

// tokensOf is what a request costs.
func tokensOf(r llm.Request) int {
	var count llm.Estimate
	n, _ := agent.ToolTokens(count, r.Tools)
	for _, m := range r.Messages {
		n += 4 + count.Count(m.Text)
	}
	return n
}

// talk says messages of 5 KB, each with a mark of its own, and gives the requests that were no summaries.
func talk(t *testing.T, o agent.Options, messages int) (*bench, []llm.Request) {
	t.Helper()
	model := summarized(apptest.Text("- what was said before"), numbered())
	b := newBench(t, apptest.Options{Model: model, Tools: wordy(), Agent: o})
	for i := range messages {
		text := fmt.Sprintf("mark%d %s", i, strings.Repeat("some words ", 450))
		b.answers(t, fmt.Sprint(i), text)
	}
	var asked []llm.Request
	for _, r := range model.Requests() {
		if !summarizing(r) {
			asked = append(asked, r)
		}
	}
	return b, asked
}

// notices are what chat a was told about its context.
func notices(t *testing.T, b *bench) (all []string) {
	t.Helper()
	ds, err := b.Bus.Claim(t.Context(), corebot.OutboundPool(apptest.Channel), 1)
	for ; err == nil && len(ds) > 0; ds, err = b.Bus.Claim(t.Context(), corebot.OutboundPool(apptest.Channel), 1) {
		if m := ds[0].Message; m.Kind == corebot.KindNotice {
			all = append(all, m.Text())
		}
		last := ds[0].Message.ID
		if err := b.Bus.Settle(t.Context(), ds[0], corebot.Outcome{
			Verb: corebot.Done,
			End:  corebot.EndSent,
		}); err != nil {
			t.Fatal(err)
		}
		if last == "end/1/1" {
			return all
		}
	}
	t.Fatal(err)
	return nil
}

func TestASmallContextShortensToolsSummarisesAndTellsTheChatOnce(t *testing.T) {
	const messages = 6
	o := agent.Options{ContextTokens: 9_000, OutputTokens: 4_096}
	b, asked := talk(t, o, messages)
	for i, r := range asked {
		if n := tokensOf(r); n > o.ContextTokens-o.OutputTokens {
			t.Errorf("request %d has %d tokens", i, n)
		}
		if len(r.Tools) < 16 || strings.Contains(r.Tools[0].Description, "much to say") ||
			string(r.Tools[0].Schema) != string(asked[0].Tools[0].Schema) {
			t.Errorf("request %d is offered %+v", i, r.Tools[0])
		}
		last := r.Messages[len(r.Messages)-1].Text
		if !strings.Contains(last, fmt.Sprintf("mark%d ", i)) || len(last) < 4_900 {
			t.Errorf("request %d ends with %.60q of %d bytes", i, last, len(last))
		}
		for j := range i { // what was said is there, or a summary of it
			if text := everything(r); !strings.Contains(text, fmt.Sprintf("mark%d ", j)) &&
				!strings.Contains(text, "what was said before") {
				t.Errorf("request %d has lost message %d", i, j)
			}
		}
	}
	b.answers(t, "end", "bye")
	told := notices(t, b)
	if len(told) != 1 || !strings.HasPrefix(told[0], "The model's context is small for this conversation") {
		t.Errorf("the chat was told %q", told)
	}
}

func everything(r llm.Request) string {
	var all strings.Builder
	for _, m := range r.Messages {
		all.WriteString(m.Text + "\n")
	}
	return all.String()
}

func TestALargeContextKeepsToolsWholeAndTellsNobody(t *testing.T) {
	b, asked := talk(t, agent.Options{ContextTokens: 64_000, OutputTokens: 4_096}, 3)
	for _, r := range asked {
		if !strings.Contains(r.Tools[0].Description, "much to say") {
			t.Errorf("offered is %+v", r.Tools[0])
		}
	}
	b.answers(t, "end", "bye")
	if told := notices(t, b); len(told) != 0 {
		t.Errorf("the chat was told %q", told)
	}
}

func TestWhatIsLeftOutWithoutASummaryIsSaidOnce(t *testing.T) {
	o := agent.Options{ContextTokens: 9_000, OutputTokens: 4_096, Compaction: agent.Compaction{Off: true}}
	b, _ := talk(t, o, 6)
	b.answers(t, "end", "bye")
	if told := notices(t, b); len(told) != 1 {
		t.Errorf("the chat was told %q", told)
	}
}

func TestAMemoryThatGrewLeavesRoomForTheMessage(t *testing.T) {
	notes := &apptest.Notes{Trusted: map[corebot.Key]string{apptest.Key("a"): strings.Repeat("remember this ", 4_000)}}
	b := newBench(t, apptest.Options{Agent: agent.Options{ContextTokens: 9_000, OutputTokens: 4_096}, Notes: notes},
		apptest.Text("fine"))
	b.answers(t, "1", "hello")
	r := b.model.Last()
	if n := tokensOf(r); n > 9_000-4_096 || !strings.HasSuffix(r.Messages[len(r.Messages)-1].Text, "hello") ||
		!strings.Contains(everything(r), "bytes left out") {
		t.Errorf("%d tokens are asked, ending with %q", n, r.Messages[len(r.Messages)-1].Text)
	}
}
