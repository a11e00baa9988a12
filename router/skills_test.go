package router_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// skillSet are the skills of a test, in a database that is opened later.
type skillSet struct{ *storage.Chats }

func (skillSet) Known(corebot.Key) ([]corebot.KnownSkill, error) {
	all := []corebot.KnownSkill{
		{Name: "deploy", Description: "puts things out", Trigger: "manual"},
		{Name: "broken", Description: "is no use", Trigger: "auto", Useless: "it needs the tool x"},
	}
	for i := range corebot.MaxSkillChoices {
		all = append(all, corebot.KnownSkill{Name: fmt.Sprint("s", i), Trigger: "auto"})
	}
	return all, nil
}

func TestAnAdminOfAChatSwitchesItsSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &skillSet{}
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model, Router: router.Options{Skills: set}})
		set.Chats = storage.NewChats(k.DB)
		l := &linking{Kit: k.Start(), t: t, model: model}
		must(t, k.Grants.Grant(t.Context(), corebot.Grant{
			Principal: apptest.Person("ann"), Chat: apptest.Key("a"), Role: corebot.RoleAdmin,
		}))
		l.want("bob", "a", "/skills", "deploy (manual): puts things out")
		l.want("bob", "a", "/skills", "broken (cannot be used: it needs the tool x)")
		l.want("bob", "a", "/skills enable deploy", "only an admin of this chat may choose its skills")
		l.want("ann", "b", "/skills enable deploy", "only an admin of this chat may choose its skills")
		l.want("ann", "a", "/skills enable deploi", `There is no skill called "deploi"`)
		l.want("ann", "a", "/skills enable broken", "cannot be used: it needs the tool x")
		l.want("ann", "a", "/skills switch deploy", "Say /skills [enable|disable NAME].")
		if got, err := set.Skills(t.Context(), apptest.Key("a")); err != nil || len(got) > 0 {
			t.Errorf("switched are %v: %v", got, err)
		}
		l.want("ann", "a", "/skills enable deploy", "The skill deploy is on in this chat")
		l.want("ann", "a", "/skills", "deploy (on in this chat)")
		l.want("ann", "b", "/skills", "deploy (manual)")
		l.want("ann", "a", "/skills disable deploy", "The skill deploy is off in this chat")
		l.want("ann", "a", "/skills", "deploy (off in this chat)")
		for i := range corebot.MaxSkillChoices - 1 {
			l.says("ann", "a", fmt.Sprint("/skills disable s", i))
		}
		l.want("ann", "a", fmt.Sprint("/skills disable s", corebot.MaxSkillChoices-1), "64 skills are switched")
		text := l.says("ann", "a", "/skills")
		if len(text) > 8<<10 || !strings.Contains(text, "s1 (off in this chat)") {
			t.Errorf("the list is %q", text)
		}
	})
}
