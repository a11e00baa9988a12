package builtin

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed skills_read.md
var skillsReadDoc string

type skillsReadArgs struct {
	Name   string `json:"name" jsonschema:"the skill, as the list calls it"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where to begin, in bytes; 0 is the beginning"`
}

// touched is the page that the call reads.
func (a skillsReadArgs) touched() policy.Target { return reads(skills.Path(a.Name)) }

// SkillsRead shows the page of a skill, without its front matter. If only the operator can write the page, the page
// counts as the operator's instructions; otherwise it is untrusted text.
func SkillsRead(store *skills.Store, chats SkillChoices) tools.Tool {
	return tools.New("skills.read", skillsReadDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, c tools.Call, a skillsReadArgs) (string, error) {
			if a.Offset < 0 {
				return "", fmt.Errorf("offset %d: want one from 0", a.Offset)
			}
			skill, page, err := store.ReadFor(c.Key, a.Name)
			if err != nil {
				return "", err
			}
			choices, err := chats.Skills(ctx, c.Key)
			if err != nil {
				return "", err
			}
			if on, chosen := choices[a.Name]; chosen && !on {
				return "", corebot.WithHint(fmt.Errorf("the skill %s is switched off in this chat", a.Name),
					"do the work without it; an admin switches it on with skills.enable")
			}
			if why := uselessness(skill); why != "" {
				return "", corebot.WithHint(fmt.Errorf("the skill %s cannot be used: %s", a.Name, why),
					"do the work without it, or say that it cannot be done")
			}
			return show("the skill "+a.Name, pieceOf(page, a.Offset)), nil
		}, tools.Touches(func(_ tools.Call, a skillsReadArgs) policy.Target { return a.touched() }),
		tools.Trusted(func(_ tools.Call, a skillsReadArgs) bool { return policy.OperatorsText(a.touched()) }))
}

// pieceOf is what one call shows of a page.
func pieceOf(page string, offset int64) rootfs.Chunk {
	size := int64(len(page))
	begin := min(offset, size)
	return rootfs.Chunk{Data: []byte(page[begin:min(begin+readMax, size)]), Offset: offset, Size: size}
}
