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
