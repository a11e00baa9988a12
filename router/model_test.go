package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

func TestAnAdminChoosesHowMuchTheModelThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Router: router.Options{
			Thinks: func(_, model string, asked corebot.Thinking) corebot.Thought {
				does := asked
				if asked == corebot.ThinkOff {
					does = corebot.ThinkLow
				}
				return corebot.Thought{Model: "o3" + model, Asked: asked, Does: does, Sure: true}
			},
		}}).Start()
		tell := func(id, text string, want ...string) {
			t.Helper()
			k.Say("a", id, text)
			pass(time.Second)
			wantTelling(t, k, id, want...)
		}
		stored := func(want corebot.Thinking) {
			t.Helper()
			if s, err := storage.NewChats(k.DB).Situation(t.Context(), apptest.Key("a")); err != nil ||
				s.Think != want {
				t.Errorf("the session thinks %q, %v; want %q", s.Think, err, want)
			}
		}
		if err := storage.NewChats(k.DB).Register(t.Context(), apptest.Key("a"), true, ""); err != nil {
			t.Fatal(err)
		}
		tell("n0", "/think", "what the provider does by itself")
		tell("n1", "/think high", "not allowed", "only an admin of this chat")
		stored("")
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person(apptest.Sender), Role: corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		tell("m0", "/think hard", "one of off, minimal, low, medium and high")
		stored("")
		tell("m1", "/think HIGH", "From the next answer on: Thinking: high.")
		stored(corebot.ThinkHigh)
		tell("m2", "/think", "Thinking: high.", "/new goes back")
		tell("m3", "/think off", "Thinking: off, for which o3 has low.")
		stored(corebot.ThinkOff)
		k.Say("a", "m3", "/think off") // a duplicate
		tell("m4", "/think default", "what the provider does by itself")
		stored("")
	})
}

func TestContextTellsWhatTheNextRequestCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Text("hi"), apptest.Hangs())}).Start()
		tell := func(id, want string) {
			t.Helper()
			k.Say("a", id, "/context")
			pass(time.Second)
			wantTelling(t, k, id, want)
		}
		tell("c1", "This conversation so far: 0 tokens in, 0 out")
		k.Say("a", "1", "hello")
		pass(time.Second)
		tell("c2", "- history: ")
		k.Say("a", "2", "hello") // its turn hangs
		pass(time.Second)
		tell("c3", "(1 message with its answer)")
	})
}

func TestAnAdminChoosesTheModelOfAConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Router: router.Options{
			Models: func(string) []string { return []string{"large", "small"} },
		}}).Start()
		model := func(want string) {
			t.Helper()
			s, err := storage.NewChats(k.DB).Situation(t.Context(), apptest.Key("a"))
			if err != nil || s.Model != want {
				t.Errorf("the session asks for %q, %v; want %q", s.Model, err, want)
			}
		}
		tell := func(id, text string, want ...string) {
			t.Helper()
			k.Say("a", id, text)
			pass(time.Second)
			wantTelling(t, k, id, want...)
		}
		tell("n0", "/models", "- large", "- small")
		tell("n1", "/model small", "not allowed", "only an admin of this chat")
		if err := k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person(apptest.Sender), Role: corebot.RoleAdmin,
		}); err != nil {
			t.Fatal(err)
		}
		if err := storage.NewChats(k.DB).Register(t.Context(), apptest.Key("a"), true, ""); err != nil {
			t.Fatal(err)
		}
		tell("m1", "/model smal", `No model is called "smal"`, "The nearest names: small, large")
		model("")
		tell("m2", "/model small", "From the next answer on: small")
		model("small")
		k.Say("a", "m2", "/model small") // a duplicate
		tell("m4", "/model default", "the configured model answers")
		model("")
	})
}
