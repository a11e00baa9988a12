package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/app"
)

func newSkills(s *shell) *cobra.Command {
	return group("skills", "Show the skills of the workspace: pages of instructions for one kind of work each",
		newSkillsList(s), newSkillsShow(s))
}

func newSkillsList(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the skills, and what is missing for them or wrong with them",
		Long: `List the skills, and what is missing for them or wrong with them, as the running Corebot finds them.
If none runs, variables are looked for in the environment of this command, and tools are taken to be
there.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			all, err := app.ListSkills(cmd.Context(), c, agent)
			if err != nil {
				return err
			}
			return printSkills(cmd, all, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}

func printSkills(cmd *cobra.Command, all app.Skills, asJSON bool) error {
	beside := &teller{w: cmd.ErrOrStderr()}
	if all.More > 0 {
		beside.line("corebot: skills has %d directories more than the %d that are looked at", all.More,
			skills.MaxSkills)
	}
	t := &teller{w: cmd.OutOrStdout()}
	if len(all.Skills) == 0 && !asJSON {
		t.line("no skills")
	}
	for _, skill := range all.Skills {
		if asJSON {
			if err := printJSON(cmd, skill); err != nil {
				return err
			}
			continue
		}
		t.line("%-24s %-7s %s", oneLine(skill.Name, 64), alwaysWord(skill.Always), stateOf(skill))
		if skill.Description != "" {
			t.line("    %s", oneLine(skill.Description, 1024))
		}
		if skill.Hint != "" {
			t.line("    hint: %s", oneLine(skill.Hint, 500))
		}
	}
	if t.err != nil {
		return t.err
	}
	return beside.err
}

func alwaysWord(always bool) string {
	if always {
		return "always"
	}
	return "-"
}

// stateOf says in words whether a skill can be used.
func stateOf(skill app.Skill) string {
	switch {
	case skill.State == app.SkillBroken:
		return "error: " + oneLine(skill.Error, 500)
	case skill.State == app.SkillMissing:
		return "needs " + strings.Join(skill.Needs, ", ")
	case len(skill.Assumes) > 0:
		return "usable, if there is " + strings.Join(skill.Assumes, ", ")
	}
	return "usable"
}

// skillPage is what `skills show --json` prints.
type skillPage struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Always      bool     `json:"always"`
	Requires    []string `json:"requires"` // "env NAME", "tool NAME"
	Tools       []string `json:"tools"`
	Page        string   `json:"page"`
}

func newSkillsShow(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a skill as Corebot understands it: its front matter and its page",
		Args:  takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			front, page, err := app.ReadSkill(c, agent, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, skillPage{
					front.Name, front.Description, front.Always, front.Requires.List(),
					append([]string{}, front.Tools...), page,
				})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", printable(front.String()),
				strings.TrimRight(printable(page), "\n"))
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}
