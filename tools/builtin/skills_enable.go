package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// SkillChoices tells which skills are switched on or off in a chat.
type SkillChoices interface {
	Skills(ctx context.Context, k corebot.Key) (corebot.SkillChoices, error)
}

var (
	//go:embed skills_enable.md
	skillsEnableDoc string
	//go:embed skills_disable.md
	skillsDisableDoc string
	//go:embed skills_enabled.md
	skillsEnabledDoc string
)

type skillsChooseArgs struct {
	Name string `json:"name" jsonschema:"the skill, as the list calls it"`
}

// SkillsEnable has later turns of the caller's chat be told of a skill, whatever its trigger.
func SkillsEnable(store *skills.Store) tools.Tool {
	return chooseSkill("skills.enable", skillsEnableDoc, store, true)
}

// SkillsDisable has no turn of the caller's chat use a skill.
func SkillsDisable(store *skills.Store) tools.Tool {
	return chooseSkill("skills.disable", skillsDisableDoc, store, false)
}

func chooseSkill(name, doc string, store *skills.Store, on bool) tools.Tool {
	return tools.NewOwn(name, doc, tools.Privileged,
		func(_ context.Context, c tools.Call, a skillsChooseArgs) (corebot.Effect, string, error) {
			skill, _, err := store.ReadFor(c.Key, a.Name)
			if err != nil {
				return nil, "", err
			}
			said := fmt.Sprintf("the skill %s is switched off in this chat", a.Name)
			if on {
				said = fmt.Sprintf("the skill %s is switched on in this chat", a.Name)
				if why := uselessness(skill); why != "" {
					return nil, "", fmt.Errorf("the skill %s cannot be used: %s", a.Name, why)
				}
			}
			return corebot.ChooseSkill{Chat: c.Key, Skill: a.Name, On: on}, said, nil
		}, tools.Touches(func(_ tools.Call, a skillsChooseArgs) policy.Target { return reads(skills.Path(a.Name)) }))
}

type skillsEnabledArgs struct{}

// SkillsEnabled shows which skills turns of the caller's chat can use.
func SkillsEnabled(store *skills.Store, chats SkillChoices) tools.Tool {
	return tools.New("skills.enabled", skillsEnabledDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, c tools.Call, _ skillsEnabledArgs) (string, error) {
			found, err := store.AllFor(c.Key)
			if err != nil {
				return "", err
			}
			choices, err := chats.Skills(ctx, c.Key)
			if err != nil {
				return "", err
			}
			usable := slices.DeleteFunc(found.Skills, func(s skills.Skill) bool {
				on, chosen := choices[s.Name]
				return !s.Usable() || chosen && !on || !chosen && s.Trigger == skills.Manual
			})
			return cmp.Or(enabledLines(usable, choices), "[no skill is on in this chat]"), nil
		}, tools.Touches(func(tools.Call, skillsEnabledArgs) policy.Target { return reads(skills.Dir) }),
		tools.Trusted(func(tools.Call, skillsEnabledArgs) bool { return policy.OperatorsText(reads(skills.Dir)) }))
}

func enabledLines(usable []skills.Skill, choices corebot.SkillChoices) string {
	var b strings.Builder
	for _, s := range usable {
		how := ""
		switch {
		case choices[s.Name]:
			how = " [switched on here]"
		case s.Trigger == skills.Keyword:
			how = " [for messages with: " + strings.Join(s.Keywords, ", ") + "]"
		}
		fmt.Fprintf(&b, "%s: %s%s\n", s.Name, s.Description, how)
		if b.Len() > skillsMost {
			b.WriteString("[there are more: skills.list has them all]\n")
			break
		}
	}
	return b.String()
}
