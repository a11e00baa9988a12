package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/rootfs"
)

// openSkills reads the skills of the workspace that the agent has from now on. Which tools there are is asked when a
// skill needs one.
func (n *notes) openSkills(allowed []string, log zerolog.Logger) (err error) {
	n.skills, err = skills.New(n.root, skills.Options{
		Allowed: hasSkill(allowed),
		Tool:    func(name string) bool { return n.hasTool(name) }, Log: log,
	})
	return err
}

// hasSkill says which skills an agent has, by its patterns.
func hasSkill(patterns []string) func(name string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return corebot.MatchesName(pattern, name) })
	}
}

func (n *notes) Skills() pages.Page { return pages.Page{Text: n.skills.Prompt()} }

// The states of a skill.
const (
	SkillUsable  = "usable"
	SkillMissing = "missing" // something that it requires is
	SkillBroken  = "broken"
)

// Skill is one skill of a home as an operator sees it.
type Skill struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Always      bool     `json:"always"`
	State       string   `json:"state"`
	Needs       []string `json:"needs"`   // what it requires and is not there: "env NAME", "tool NAME"
	Assumes     []string `json:"assumes"` // what it requires and only a running Corebot could tell: "tool NAME"
	Tools       []string `json:"tools"`   // that its page speaks of
	Error       string   `json:"error"`
	Hint        string   `json:"hint"`
}

// Skills are the skills of a home.
type Skills struct {
	Skills []Skill `json:"skills"`
	More   int     `json:"more"` // directories that are not looked at, since there are so many
}

// OpSkillsList lists the skills as the daemon finds them: with its environment and its tools.
const OpSkillsList = "skills.list"

func (a *App) skillOperations(all control.Operations) {
	all[OpSkillsList] = control.Typed(func(_ context.Context, agent string) (Skills, error) {
		u, err := a.agents.named(agent)
		if err != nil {
			return Skills{}, err
		}
		found, err := u.notes.skills.All()
		return described(found, true), err
	})
}

// described is what an operator is told. Without knowing the tools there are, those that are required are named.
func described(found skills.Found, toolsKnown bool) Skills {
	all := Skills{Skills: []Skill{}, More: found.More}
	for _, s := range found.Skills {
		row := Skill{
			Name: s.Name, Description: s.Description, Always: s.Always, State: SkillUsable,
			Needs: s.Missing.List(), Assumes: []string{}, Tools: append([]string{}, s.Tools...),
		}
		if !toolsKnown {
			row.Assumes = skills.Needs{Tools: s.Requires.Tools}.List()
		}
		switch {
		case s.Err != nil:
			row.State, row.Error, row.Hint = SkillBroken, s.Err.Error(), corebot.HintOf(s.Err)
		case !s.Usable():
			row.State = SkillMissing
		}
		all.Skills = append(all.Skills, row)
	}
	return all
}

// ListSkills lists the skills of a home as its running daemon knows them. If none runs, it reads them with the
// environment of this process and takes every tool for present.
func ListSkills(ctx context.Context, c config.Config, agent string) (Skills, error) {
	entry, err := entryOf(c, agent)
	if err != nil {
		return Skills{}, err
	}
	daemon, running, err := control.Dial(ctx, DataDir(c.Home))
	if err != nil {
		return Skills{}, err
	}
	if running {
		return control.Call[Skills](ctx, daemon, OpSkillsList, entry.ID)
	}
	var found skills.Found
	err = withSkills(c, entry, func(store *skills.Store) (err error) {
		found, err = store.All()
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // there is no workspace yet
		err = nil
	}
	return described(found, false), err
}

// ReadSkill gives the front matter and the page of a skill as Corebot understands them.
func ReadSkill(c config.Config, agent, name string) (front skills.FrontMatter, page string, err error) {
	entry, err := entryOf(c, agent)
	if err != nil {
		return front, "", err
	}
	err = withSkills(c, entry, func(store *skills.Store) error {
		skill, text, err := store.Read(name)
		front, page = skill.FrontMatter, text
		return err
	})
	return front, page, err
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
	all, err := ListSkills(ctx, c, entry.ID)
	if err != nil {
		return []Finding{warn(corebot.HintOf(err), "the skills: %v", err)}
	}
	findings, usable := []Finding(nil), 0
	for _, s := range all.Skills {
		switch s.State {
		case SkillUsable:
			usable++
		case SkillBroken:
			findings = append(findings, warn(s.Hint, "%s", s.Error))
		}
	}
	if all.More > 0 {
		findings = append(findings, warn("take away what is no skill", "workspace/%s has %d directories more than "+
			"the %d that are looked at", skills.Dir, all.More, skills.MaxSkills))
	}
	return append(findings, ok("%d of %d skills can be used (`corebot skills list` shows them)", usable,
		len(all.Skills)))
}
