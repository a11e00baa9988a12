package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

func TestWhatATurnAnswersGoesWhereItsEntrySays(t *testing.T) {
	asker := apptest.Key("asker")
	for kind, want := range map[corebot.EntryKind]corebot.Key{
		"": apptest.Key("a"), corebot.EntryTask: apptest.Key("a"), corebot.EntryEvent: apptest.Key("a"),
		corebot.EntryAgent: asker,
	} {
		b := newBench(t, apptest.Options{}, apptest.Text("done"))
		b.Say("a", "1", "go")
		d := b.Claim()
		d.Message.Entry = corebot.Entry{Kind: kind, From: asker}
		r, err := b.Agent.Turn(t.Context(), d)
		if err != nil || len(r.Replies) != 1 || r.Replies[0].Key != want {
			t.Errorf("%q: %+v, %v", kind, r.Replies, err)
		}
	}
}

// TestTheChatIsToldWhyNobodyCouldBeAskedWhateverTheModelSays: once, however often the model tries, and after a crash
// the same.
func TestTheChatIsToldWhyNobodyCouldBeAskedWhateverTheModelSays(t *testing.T) {
	program := tools.New("mcp.reload", "A tool of a test.", tools.SideEffect|tools.Privileged,
		func(context.Context, tools.Call, apptest.ToolArgs) (string, error) { return "ran", nil },
		// of which nobody knows what is in it
		tools.Names(func(_ tools.Call, a apptest.ToolArgs) tools.Named { return tools.Named{Dir: a.Text} }))
	tries := apptest.Asks(apptest.Call("a", "mcp.reload", `{"text":"first"}`),
		apptest.Call("b", "mcp.reload", `{"text":"second"}`))
	journal := &recorder{}
	k := apptest.New(t, apptest.Options{
		Journal: func(j agent.Journal) agent.Journal {
			journal.Journal = j
			return journal
		},
		Model: scriptOfTurns(tries, apptest.Text("All is well.")), Tools: []tools.Tool{program},
		Policy: policy.Options{Approvals: policy.Approvals{Mode: policy.ApproveAlways}},
	})
	if err := k.Grants.Grant(t.Context(), corebot.Grant{
		Principal: apptest.Person(apptest.Sender),
		Role:      corebot.RoleAdmin,
	}); err != nil {
		t.Fatal(err)
	}
	k.Say("a", "1", "run it")
	d := k.Claim()
	for range 2 { // the second time from the journal
		r, err := k.Agent.Turn(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Replies) != 2 || r.Replies[0].Text() != "All is well." {
			t.Fatalf("the replies are %+v", r.Replies)
		}
		told := r.Replies[1]
		if told.ID != "1/1/notice" || told.Kind != corebot.KindNotice || told.InReplyTo != "1" ||
			!strings.Contains(told.Text(), "A call of mcp.reload was denied") ||
			!strings.Contains(told.Text(), "what is in first is not known") {
			t.Errorf("the chat is told %+v", told)
		}
		d.Journal = journal.after(len(journal.steps))
	}
}
