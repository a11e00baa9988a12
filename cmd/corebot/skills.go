package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/operate"
)

func newSkills(s *shell) *cobra.Command {
	return group("skills", "Show, install and remove skills: pages of instructions for one kind of work each",
		newSkillsList(s), newSkillsShow(s), newSkillsInstall(s), newSkillsRemove(s), newSkillsSearch(s))
}

func newSkillsList(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	var in skillScope
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the skills, and what is missing for them or wrong with them",
		Long: `List the skills, and what is missing for them or wrong with them, as the running Corebot finds them.
If none runs, variables are looked for in the environment of this command, and tools are taken to be
there. With --chat or --channel it lists the skills that only that chat, or only the chats of that
account, have.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope, err := in.key(s, cmd, agent)
			if err != nil {
				return err
			}
			var all operate.Skills
			rows, err := gather(func(p operate.Part) (_ operate.Page[operate.Skill], err error) {
				all, err = look(s, cmd, operate.ListSkills, operate.SkillsQuery{
					ByAgent: operate.ByAgent{Agent: agent}, Key: scope, Part: p,
				})
				return all.Page, err
			})
			if err != nil {
				return err
			}
			all.Rows = rows
			return printSkills(cmd, all, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	in.flags(cmd)
	return cmd
}

func printSkills(cmd *cobra.Command, all operate.Skills, asJSON bool) error {
	beside := &teller{w: cmd.ErrOrStderr()}
	if all.More > 0 {
		beside.line("corebot: skills has %d directories more than the %d that are looked at", all.More,
			skills.MaxSkills)
	}
	t := &teller{w: cmd.OutOrStdout()}
	if len(all.Rows) == 0 && !asJSON {
		t.line("no skills")
	}
	for _, skill := range all.Rows {
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
func stateOf(skill operate.Skill) string {
	switch {
	case skill.State == operate.SkillBroken:
		return "error: " + oneLine(skill.Error, 500)
	case skill.State == operate.SkillMissing:
		return "needs " + strings.Join(skill.Needs, ", ")
	case len(skill.Assumes) > 0:
		return "usable, if there is " + strings.Join(skill.Assumes, ", ")
	}
	return "usable"
}

func newSkillsShow(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	var in skillScope
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a skill as Corebot understands it: its front matter and its page",
		Args:  takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := in.key(s, cmd, agent)
			if err != nil {
				return err
			}
			page, err := look(s, cmd, operate.ShowSkill, operate.SkillName{
				ByAgent: operate.ByAgent{Agent: agent}, Key: scope, Name: args[0],
			})
			if err != nil {
				return err
			}
			if asJSON {
				page.Front = ""
				return printJSON(cmd, page)
			}
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", printable(page.Front),
				strings.TrimRight(printable(page.Page), "\n")); err != nil {
				return err
			}
			c := &skillChange{s: s, cmd: cmd, agent: agent, in: in}
			dir, _, err := c.place()
			if err == nil {
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "\n%s\n", origin(dir, page.Name))
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	in.flags(cmd)
	return cmd
}
