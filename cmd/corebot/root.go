package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/observability"
)

// shell is what the commands share: the global flags, and what they lead to.
type shell struct {
	home   string
	out    io.Writer   // of what commands find
	reader *app.Reader // made when something is to be read first
}

func newRoot() *cobra.Command {
	root := newRootOn(os.Stdout, os.Stderr)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if stays(cmd) {
			growHeap(usualGrowth)
		}
	}
	return root
}

// newRootOn is the program with other outputs.
func newRootOn(out, errOut io.Writer) *cobra.Command {
	s := &shell{out: out}
	root := &cobra.Command{
		Use:   "corebot",
		Short: "An always-on agent bot on a durable message bus",
		Long: `Corebot takes messages into a durable queue, answers them with a language model and tools, one turn
at a time per chat, and loses nothing when it is killed. With no model configured it looks for one
on this machine, and else answers with a built-in offline model.

Everything it keeps is in its home directory: settings, database, workspace.`,
		Version:       app.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	nameVersion()
	root.SetVersionTemplate("{{versionLine}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	filledFlag(root.PersistentFlags(), &s.home, "home", "home directory (default: $COREBOT_HOME, then ~/.corebot)")
	root.SetOut(out)
	root.SetErr(&hiding{shell: s, to: errOut})
	root.AddCommand(newInit(s), newDoctor(s), newServe(s), newChat(s), newSend(s))
	root.AddCommand(s.hides(newWhy(s), newStatus(s), newHealth(s), newUsage(s), newDeferred(s), newAudit(s), newDLQ(s),
		newChats(s), newTasks(s), newWaits(s), newResume(s), newJobs(s))...)
	root.AddCommand(newApprovals(s), newAdmin(s), newPair(s), newTokens(s), newConsole(s), newAgents(s), newModels(s),
		newChannels(s), newDB(s), newConfig(s, newConfigReload(s)), newMCP(s), newSkills(s), newMemory(s), newDemo(),
		newBench(), newMan(), newVersion())
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err == nil {
		completion.Args, completion.RunE = knownCommand, root.RunE
		for _, c := range completion.Commands() {
			c.Args = takes()
		}
	}
	completesNoFiles(root)
	refusesEmpty(root)
	refusesBytes(root)
	return root
}

// settings reads the home's settings.
func (s *shell) settings() (config.Config, error) {
	home, err := config.Home(s.home)
	if err != nil {
		return config.Config{}, err
	}
	return app.LoadConfig(home)
}

// daemon connects to the Corebot that runs on the home; the hint says what to do if none does.
func (s *shell) daemon(ctx context.Context, hint string) (*control.Client, error) {
	dir, err := s.dataDir()
	if err != nil {
		return nil, err
	}
	daemon, running, err := control.Dial(ctx, dir)
	if err == nil && !running {
		err = corebot.WithHint(errors.New("no Corebot runs on this home"), hint)
	}
	return daemon, err
}

// dataDir is where the home keeps its database.
func (s *shell) dataDir() (string, error) {
	home, err := config.Home(s.home)
	return app.DataDir(home), err
}

// look carries out an operation that only reads, beside a running Corebot and without one.
func look[A, R any](s *shell, cmd *cobra.Command, op operate.Operation[A, R], args A) (found R, err error) {
	if s.reader == nil {
		home, err := config.Home(s.home)
		if err != nil {
			return found, err
		}
		s.reader = app.NewReader(home, app.Patience)
	}
	return op.Call(cmd.Context(), s.reader, args)
}

// logger logs to stderr as the settings say.
func logger(c config.Log, hide *redact.Redactor) (zerolog.Logger, error) {
	return observability.NewLogger(os.Stderr, c.Level, c.Format, hide)
}

// change hands fn a way to change the state of the home, beside a running daemon and without one.
func (s *shell) change(cmd *cobra.Command, fn func(control.Caller) error) error {
	home, err := config.Home(s.home)
	if err != nil {
		return err
	}
	return app.Change(cmd.Context(), home, fn)
}
