package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed skills_list.md
var skillsListDoc string

// skillsMost is how many bytes of lines one call shows.
const skillsMost = 32 << 10

type skillsListArgs struct {
	After string `json:"after,omitempty" jsonschema:"show only skills behind this one, to go on with a long list"`
}

// SkillsList shows which skills there are. It reads the directory that only admins may write.
func SkillsList(store *skills.Store) tools.Tool {
	return tools.New("skills.list", skillsListDoc, tools.ReadOnly|tools.Outside,
		func(_ context.Context, c tools.Call, a skillsListArgs) (string, error) {
			found, err := store.AllFor(c.Key)
			if err != nil {
				return "", err
			}
			return skillLines(found.Skills, a.After), nil
		}, tools.Touches(func(tools.Call, skillsListArgs) policy.Target { return reads(skills.Dir) }),
		tools.Trusted(func(tools.Call, skillsListArgs) bool { return policy.OperatorsText(reads(skills.Dir)) }))
}

func skillLines(all []skills.Skill, after string) string {
	var b strings.Builder
	last, more := after, 0
	for _, s := range all {
		line := skillLine(s)
		switch {
		case s.Name <= after:
		case more > 0 || b.Len()+len(line) > skillsMost:
			more++
		default:
			b.WriteString(line)
			last = s.Name
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "[there are %d more; go on with after %q]\n", more, last)
	}
	return cmp.Or(b.String(), "[there are no skills]")
}

// skillLine says what a skill is for, and whether it is of use.
func skillLine(s skills.Skill) string {
	line := s.Name + ": " + s.Description
	if s.Trigger != skills.Auto {
		line += " [" + string(s.Trigger) + "]"
	}
	if why := uselessness(s); why != "" {
		line = strings.TrimSuffix(line, ": ") + " [cannot be used: " + why + "]"
	}
	return line + "\n"
}

// uselessness gives the reason why a skill cannot be used; empty: it can. Which variables of the environment are set is
// the operator's business.
func uselessness(s skills.Skill) string {
	switch {
	case s.Err != nil:
		return "its page is wrong, and the operator can see how"
	case len(s.Missing.Env) > 0:
		return "the operator has not set what it needs"
	case len(s.Missing.Tools) > 0:
		return "needs " + s.Missing.String()
	}
	return ""
}
