package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/agent/skills/pack"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/rootfs"
)

// skillChange is a command that installs or removes a skill.
type skillChange struct {
	s      *shell
	cmd    *cobra.Command
	agent  string
	in     skillScope
	scope  string // the key of it; empty: all chats of the agent
	yes    bool
	asJSON bool
}

// skillScope says which chats have a skill: one, those of an account of a channel, or all of an agent.
type skillScope struct{ chat, channel string }

func (f *skillScope) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.chat, "chat", "", "only this chat has it: its key, or a short form such as webhook:c1")
	cmd.Flags().StringVar(&f.channel, "channel", "", "only the chats of this account have it: KIND or KIND/ACCOUNT")
	cmd.MarkFlagsMutuallyExclusive("chat", "channel")
	cmd.MarkFlagsMutuallyExclusive("chat", "agent")
}

// key is the key of the scope; zero: all chats of the agent.
func (f *skillScope) key(s *shell, cmd *cobra.Command, agent string) (k corebot.Key, err error) {
	switch {
	case f.chat != "":
		k, err = s.chat(cmd, f.chat)
		k.Thread = ""
	case f.channel != "":
		k, err = s.sharedKey(f.channel, agent)
	}
	return k, err
}

// installFlags are those of `corebot skills install`.
type installFlags struct{ name, hash string }

func newSkillsInstall(s *shell) *cobra.Command {
	c := &skillChange{s: s}
	var f installFlags
	cmd := &cobra.Command{
		Use:   "install SOURCE",
		Short: "Install a skill from a directory, an archive or a git checkout on this machine",
		Long: `Install a skill from a directory, a .zip, a .tar or .tar.gz, or a git checkout on this machine. A skill
is instructions to the agent with the operator's word behind them. So the command shows what would be
installed, with its hash, and asks. Without a terminal it wants --yes, or --hash with the hash that you
have seen. A skill of the same name is replaced, and the difference is shown.

Nothing of the skill is run. A skill with links, with names that lead elsewhere, or with more than 512
files or 8 MiB is refused. It holds from the next message on. With --chat only one chat has the skill,
with --channel only the chats of an account of a channel.`,
		Args: takes("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.cmd = cmd
			return c.install(args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.name, "name", "", "which skill, if the source has several")
	cmd.Flags().StringVar(&f.hash, "hash", "", "install without a question, and only what has this hash")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "install without a question")
	agentFlag(cmd, &c.agent)
	c.in.flags(cmd)
	jsonFlag(cmd, &c.asJSON)
	return cmd
}

func newSkillsRemove(s *shell) *cobra.Command {
	c := &skillChange{s: s}
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Delete a skill with all its files",
		Args:  takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.cmd = cmd
			return c.remove(args[0])
		},
	}
	cmd.Flags().BoolVar(&c.yes, "yes", false,
		"delete without a question, also a skill that was written or changed by hand")
	agentFlag(cmd, &c.agent)
	c.in.flags(cmd)
	return cmd
}

func newSkillsSearch(s *shell) *cobra.Command {
	var in string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "search WORDS --in SOURCE",
		Short: "Find skills in a directory or an archive of many, by name and description",
		Args:  takes("WORDS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if in == "" {
				return usage(cmd, errors.New("want --in SOURCE"))
			}
			all, err := pack.Find(in)
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			found := 0
			for _, c := range all {
				if !hasWords(c, args[0]) {
					continue
				}
				if found++; asJSON {
					if err := printJSON(cmd, newFoundSkill(c)); err != nil {
						return err
					}
					continue
				}
				t.line("%-24s %s", oneLine(c.Name, 64), oneLine(c.Dir, 100))
				if c.Err != nil {
					t.line("    error: %s", oneLine(c.Err.Error(), 500))
				} else {
					t.line("    %s", oneLine(c.Description, 1024))
				}
			}
			if found == 0 && !asJSON {
				t.line("none of %s has all of these words", count(int64(len(all)), "skill"))
			}
			return t.err
		},
	}
	cmd.Flags().StringVar(&in, "in", "", "a directory, a .zip, a .tar or a .tar.gz")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// foundSkill is a skill of a source as --json prints it.
type foundSkill struct {
	Name        string `json:"name"`
	Dir         string `json:"dir"`
	Description string `json:"description"`
	Error       string `json:"error"`
}

func newFoundSkill(c pack.Candidate) foundSkill {
	f := foundSkill{c.Name, c.Dir, c.Description, ""}
	if c.Err != nil {
		f.Error = c.Err.Error()
	}
	return f
}

func hasWords(c pack.Candidate, words string) bool {
	text := strings.ToLower(c.Name + " " + c.Description)
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// place is the directory of the skills that are meant, and where skills are made ready.
func (c *skillChange) place() (dir, staging string, err error) {
	scope, err := c.in.key(c.s, c.cmd, c.agent)
	if err != nil {
		return "", "", err
	}
	if scope.Agent != "" {
		c.agent, c.scope = scope.Agent, scope.String()
	}
	home, err := config.Home(c.s.home)
	if err != nil {
		return "", "", err
	}
	if c.agent != "" {
		if _, err := look(c.s, c.cmd, operate.ShowAgent, operate.ByAgent{Agent: c.agent}); err != nil {
			return "", "", err
		}
	} else {
		settings, err := c.s.settings()
		if err != nil {
			return "", "", err
		}
		c.agent = settings.DefaultAgent()
	}
	workspace := app.Workspace(home, c.agent)
	if _, err := os.Stat(workspace); err != nil {
		return "", "", corebot.WithHint(fmt.Errorf("the agent %s has no workspace yet: %w", c.agent, err),
			"`corebot init` makes the home")
	}
	return filepath.Join(workspace, filepath.FromSlash(skills.DirOf(scope))), app.DataDir(home), nil
}

func (c *skillChange) install(from string, f installFlags) error {
	dir, staging, err := c.place()
	if err != nil {
		return err
	}
	from, err = filepath.Abs(from)
	if err != nil {
		return err
	}
	p, err := pack.Read(from, f.name)
	if err != nil {
		return err
	}
	old, err := pack.Look(dir, p.Name)
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return err
	}
	if err == nil && old.Hash == p.Hash {
		return c.installed(p, "is installed already, as it is")
	}
	t := &teller{w: c.cmd.ErrOrStderr()}
	tellPack(t, p, old, err == nil)
	if t.err != nil {
		return t.err
	}
	switch {
	case f.hash != "" && f.hash != p.Hash:
		return corebot.WithHint(fmt.Errorf("the skill %s has not the hash %s", p.Name, oneLine(f.hash, 80)),
			"look at what has changed in it before you install it")
	case f.hash == "" && !c.yes:
		if err := c.confirm("Install it?"); err != nil {
			return err
		}
	}
	if err := pack.Install(dir, staging, p, old.Hash, time.Now()); err != nil {
		return err
	}
	change := operate.SkillChange{Change: "install", Name: p.Name, Hash: p.Hash, Source: p.Source}
	if err := c.note(change); err != nil {
		return err
	}
	return c.installed(p, "is installed")
}

func (c *skillChange) installed(p pack.Pack, how string) error {
	if c.asJSON {
		return printJSON(c.cmd, map[string]string{"name": p.Name, "hash": p.Hash, "agent": c.agent})
	}
	_, err := fmt.Fprintf(c.cmd.OutOrStdout(), "the skill %s %s (%s)\n", p.Name, how, p.Hash)
	return err
}

// maxFilesShown is how many files of a new skill are named.
const maxFilesShown = 40

// tellPack shows what would be installed.
func tellPack(t *teller, p pack.Pack, old pack.Installed, upgrade bool) {
	size := 0
	for _, f := range p.Files {
		size += len(f.Data)
	}
	t.line("skill        %s", p.Name)
	t.line("             %s", oneLine(p.Description, 1024))
	t.line("from         %s", oneLine(p.Source, 500))
	if p.Commit != "" {
		t.line("commit       %s", p.Commit)
	}
	t.line("hash         %s", p.Hash)
	t.line("files        %d, %d bytes", len(p.Files), size)
	if p.Always {
		t.line("always       its whole page is in every prompt")
	}
	if !p.Requires.None() {
		t.line("requires     %s", oneLine(p.Requires.String(), 500))
	}
	if !upgrade {
		for i, f := range p.Files {
			if i == maxFilesShown {
				t.line("  … and %d more", len(p.Files)-maxFilesShown)
				break
			}
			t.line("  %s", oneLine(f.Path, 200))
		}
		return
	}
	if !old.Noted || old.Changed {
		t.line("replaces     a skill that was written or changed by hand")
	}
	for _, change := range pack.Compare(old.Files, p.Files) {
		t.line("  %-8s %s", change.Word, oneLine(change.Path, 200))
		if change.Diff != "" {
			t.line("%s", printable(change.Diff))
		}
	}
}

func (c *skillChange) remove(name string) error {
	dir, staging, err := c.place()
	if err != nil {
		return err
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || rootfs.InScopedSkills(skills.Dir+"/"+name) {
		return usage(c.cmd, fmt.Errorf("%q is no name of a skill", oneLine(name, 80)))
	}
	was, err := pack.Look(dir, name)
	if errors.Is(err, corebot.ErrNotFound) {
		return corebot.WithHint(err, "`corebot skills list` shows which there are")
	}
	if (err != nil || !was.Noted || was.Changed) && !c.yes {
		fmt.Fprintf(c.cmd.ErrOrStderr(), "the skill %s was written or changed by hand: no source has it\n", name)
		if err := c.confirm("Delete it?"); err != nil {
			return err
		}
	}
	if err := pack.Remove(dir, staging, name); err != nil {
		return err
	}
	if err := c.note(operate.SkillChange{Change: "remove", Name: name}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.cmd.OutOrStdout(), "the skill %s is gone\n", name)
	return err
}

// confirm asks a person; without one it is an error.
func (c *skillChange) confirm(question string) error {
	a := newAsker(c.cmd.InOrStdin(), c.cmd.ErrOrStderr())
	if a == nil {
		return corebot.WithHint(errors.New("nobody can be asked: nothing was changed"), "add --yes")
	}
	return a.confirm(c.cmd.Context(), question)
}

// note has the audit trail keep the change. The change stands, whatever comes of that.
func (c *skillChange) note(change operate.SkillChange) error {
	change.Agent, change.Scope = c.agent, c.scope
	err := c.s.change(c.cmd, func(to control.Caller) error {
		_, err := operate.NoteSkill.Call(context.WithoutCancel(c.cmd.Context()), to, change)
		return err
	})
	if err != nil {
		err = fmt.Errorf("the skill %s was changed, and the audit trail does not know: %w", change.Name, err)
	}
	return err
}

// origin says where a skill came from, and whether it still is what came.
func origin(dir, name string) string {
	i, err := pack.Look(dir, name)
	switch {
	case err != nil:
		return "files that cannot be read: " + oneLine(err.Error(), 300)
	case !i.Noted:
		return "written by hand; " + i.Hash
	case i.Changed:
		return fmt.Sprintf("changed since it was installed from %s; %s", oneLine(i.Note.Source, 200), i.Hash)
	}
	return fmt.Sprintf("installed %s from %s; %s", clock(i.Note.InstalledAt), oneLine(i.Note.Source, 200), i.Hash)
}
