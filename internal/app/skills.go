package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

// openSkills reads the skills of the workspace that the agent has from now on. Which tools there are is asked when a
// skill needs one.
func (n *notes) openSkills(allowed []string, log zerolog.Logger) (err error) {
	n.skills, err = skills.New(n.root, skills.Options{
		Allowed: hasSkill(allowed),
		Tool:    n.hasTool, Log: log,
	})
	return err
}

// hasSkill says which skills an agent has, by its patterns.
func hasSkill(patterns []string) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return corebot.MatchesName(pattern, name) })
	}
}

// SkillsHere implements [agent.Notes].
func (n *notes) SkillsHere(k corebot.Key, choices corebot.SkillChoices, message string) string {
	return n.skills.Here(k, choices, message)
}

func (n *notes) Skills() pages.Page { return pages.Page{Text: n.skills.Prompt()} }

// described is what an operator is told. Without knowing the tools there are, those that are required are named.
func described(found skills.Found, toolsKnown bool) []operate.Skill {
	all := []operate.Skill{}
	for _, s := range found.Skills {
		row := operate.Skill{
			Name: s.Name, Description: s.Description, Always: s.Always, State: operate.SkillUsable,
			Needs: s.Missing.List(), Assumes: []string{}, Tools: append([]string{}, s.Tools...),
		}
		if !toolsKnown {
			row.Assumes = skills.Needs{Tools: s.Requires.Tools}.List()
		}
		switch {
		case s.Err != nil:
			row.State, row.Error, row.Hint = operate.SkillBroken, s.Err.Error(), corebot.HintOf(s.Err)
		case !s.Usable():
			row.State = operate.SkillMissing
		}
		all = append(all, row)
	}
	return all
}

// skillsAtRest are the skills of an agent as the environment of this process has it, and with all tools taken to be
// there.
func skillsAtRest(c config.Config, entry config.AgentEntry, of corebot.Key) ([]operate.Skill, int, error) {
	var found skills.Found
	err := withSkills(c, entry, func(store *skills.Store) (err error) {
		found, err = store.In(of).All()
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // there is no workspace yet
		err = nil
	}
	return described(found, false), found.More, err
}

// skillPage gives the front matter and the page of a skill as Corebot understands them.
func skillPage(c config.Config, entry config.AgentEntry, of corebot.Key, name string) (page operate.SkillPage,
	err error,
) {
	err = withSkills(c, entry, func(store *skills.Store) error {
		skill, text, err := store.In(of).Read(name)
		page = operate.SkillPage{
			Name: skill.Name, Description: skill.Description, Always: skill.Always, Requires: skill.Requires.List(),
			Tools: append([]string{}, skill.Tools...), Page: text, Front: skill.FrontMatter.String(),
		}
		return err
	})
	return page, err
}

// withSkills hands over the skills of an agent, beside whatever runs there.
func withSkills(c config.Config, entry config.AgentEntry, fn func(*skills.Store) error) error {
	root, err := rootfs.New(place{c.Home, entry.ID}.workspace())
	if err != nil {
		return err
	}
	store, err := skills.New(root, skills.Options{Allowed: hasSkill(entry.Skills.Values())})
	if err == nil {
		err = fn(store)
	}
	return errors.Join(err, root.Close())
}

// checkSkills looks for skills that are of no use as they are.
func checkSkills(ctx context.Context, c config.Config, entry config.AgentEntry) []Finding {
	all, err := operate.ListSkills.Call(ctx, NewReader(c.Home, Patience),
		operate.SkillsQuery{ByAgent: operate.ByAgent{Agent: entry.ID}})
	if err != nil {
		return []Finding{warn(corebot.HintOf(err), "the skills: %v", err)}
	}
	findings, usable := []Finding(nil), 0
	for _, s := range all.Rows {
		switch s.State {
		case operate.SkillUsable:
			usable++
		case operate.SkillBroken:
			findings = append(findings, warn(s.Hint, "%s", s.Error))
		}
	}
	if all.More > 0 {
		findings = append(findings, warn("take away what is no skill", "workspace/%s has %d directories more than "+
			"the %d that are looked at", skills.Dir, all.More, skills.MaxSkills))
	}
	return append(findings, ok("%d of %d skills can be used (`corebot skills list` shows them)", usable,
		len(all.Rows)))
}

// chatSkills are the skills that people switch in chats.
type chatSkills struct {
	*storage.Chats
	a *App
}

// Known implements [router.Skills]: as the prompts of turns have them.
func (s chatSkills) Known(k corebot.Key) (all []corebot.KnownSkill, err error) {
	u, err := s.a.agents.named(k.Agent)
	if err != nil {
		return nil, err
	}
	found, err := u.notes.skills.AllFor(k)
	for _, k := range found.Skills {
		one := corebot.KnownSkill{Name: k.Name, Description: k.Description, Trigger: cmp.Or(string(k.Trigger), "auto")}
		switch {
		case k.Err != nil:
			one.Useless = k.Err.Error()
		case !k.Usable():
			one.Useless = "it needs " + strings.Join(k.Missing.List(), ", ")
		}
		all = append(all, one)
	}
	return all, err
}
