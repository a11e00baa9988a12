package app_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// sending is a Corebot that can send messages and search what was said.
func sending(t *testing.T, dir string, replies ...apptest.Reply) (*apptest.Kit, *apptest.Model) {
	t.Helper()
	model := apptest.Script(replies...)
	k := apptest.New(t, apptest.Options{Dir: dir, Model: model, Tools: []tools.Tool{
		builtin.MessageSend(map[string]builtin.Destination{apptest.Channel: {}}, 1000),
	}})
	if err := k.Grants.Grant(context.Background(), corebot.Grant{
		Principal: apptest.Person(apptest.Sender),
		Role:      corebot.RoleAdmin, By: "operator",
	}); err != nil {
		t.Fatal(err)
	}
	return k.Start(), model
}

func sends(chat, text string) apptest.Reply {
	return apptest.Asks(apptest.Call("1", "message.send", `{"channel":"test","chatId":"`+chat+`","content":"`+text+
		`"}`))
}

// shown are the texts of a request with their roles, the situations left out.
func shown(r llm.Request) []string {
	var out []string
	for _, m := range r.Messages {
		if m.Role != llm.System && !strings.Contains(m.Text, `kind="situation"`) {
			out = append(out, string(m.Role)+": "+m.Text)
		}
	}
	return out
}

func TestWhatIsSentToAnotherChatIsToldThereAndKnownInItsNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, model := sending(t, "", apptest.Text("hi bob"), sends("bob", "lunch at one"), apptest.Text("told him"),
			apptest.Text("see you"))
		k.SayAs("bob", "bob", "b1", "hello")
		synctest.Wait()
		k.Say("alice", "a1", "tell bob: lunch at one")
		synctest.Wait()
		k.SayAs("bob", "bob", "b2", "fine")
		synctest.Wait()
		if got, want := k.Transcript("bob"), []string{
			"user: hello", "assistant: hi bob", "assistant: lunch at one",
			"user: fine", "assistant: see you",
		}; !slices.Equal(got, want) {
			t.Errorf("the history is %q, want %q", got, want)
		}
		want := []string{"user: hello", "assistant: hi bob", "user: <data kind=\"sent\">you sent this here from " +
			"another chat</data>", "assistant: lunch at one", "user: fine"}
		if got := shown(model.Last()); !slices.Equal(got, want) {
			t.Errorf("the model was shown %q, want %q", got, want)
		}
		told := k.Told("a1")
		if len(told) != 2 || told[0].Text() != "lunch at one" || told[0].Key != apptest.Key("bob") ||
			told[0].InReplyTo != "" || told[1].Key != apptest.Key("alice") {
			t.Errorf("said were %+v", told)
		}
	})
}

func TestACrashAfterASendDoesNotRepeatIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k, _ := sending(t, dir, sends("alice", "a moment please"), apptest.Hangs())
		k.Say("alice", "a1", "do it")
		synctest.Wait()
		k.Crash()
		time.Sleep(time.Minute)
		k, _ = sending(t, dir, apptest.Text("done"))
		time.Sleep(time.Hour)
		synctest.Wait()
		k.WantEnd("a1", corebot.EndAnswered)
		var texts []string
		for _, m := range k.Told("a1") {
			texts = append(texts, m.Text())
		}
		if !slices.Equal(texts, []string{"a moment please", "done"}) {
			t.Errorf("said was %q", texts)
		}
		want := []string{
			"user: do it",
			`assistant: message.send({"channel":"test","chatId":"alice","content":"a moment please"})`,
			`tool: the message is on its way to chat "alice" on test`, "assistant: done",
		}
		if got := k.Transcript("alice"); !slices.Equal(got, want) {
			t.Errorf("the history is %q", got)
		}
	})
}

func TestAModelThatSendsWhereItMayNotIsToldWhatToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, model := sending(t, "", sends("nobody", "psst"), apptest.Text("I could not"))
		k.Say("alice", "a1", "whisper")
		synctest.Wait()
		if got := shown(model.Last()); len(got) < 3 || !strings.Contains(got[2], "nobody has written there yet") {
			t.Errorf("the model was shown %q", got)
		}
		k.WantTold("a1", "I could not")
	})
}
