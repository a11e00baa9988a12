package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/observability"
)

// chatDrain is how long a turn may go on after the user left; what is not finished resumes at the next start.
const chatDrain = 2 * time.Second

var errNoChat = errors.New("--chat is empty")

func newChat(s *shell) *cobra.Command {
	var chat string
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to it here in the terminal",
		Long: `Talk to Corebot here in the terminal, over the same queue and router as every other channel. When input or output is not a
terminal, every line of input is one message and every reply is printed plainly.

Enter sends, Ctrl-J begins a new line, Ctrl-C stops the answer that is being made and, when nothing runs, leaves. /help lists
the commands of the chat. What was running when Corebot was killed goes on at the next start.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if chat == "" {
				return usage(cmd, errNoChat)
			}
			c, err := s.settings()
			if err != nil {
				return err
			}
			data := app.DataDir(c.Home)
			interactive := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
			return s.talk(cmd.Context(), c, conversation{chat: chat, interactive: interactive, open: func(at place) (channels.Channel, error) {
				id, name := whoRuns()
				return cli.New(cli.Options{
					In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Interactive: interactive,
					Chat: chat, UserID: id, UserName: name, Watch: at.watch, ModelName: at.model,
					HistoryFile: filepath.Join(data, "prompts"), NoColor: os.Getenv("NO_COLOR") != "",
				})
			}})
		},
	}
	cmd.Flags().StringVar(&chat, "chat", "main", "which chat to talk in")
	return cmd
}

// conversation is what one terminal of this process does with a chat.
type conversation struct {
	chat        string
	interactive bool
	publishOnly bool // it waits for no answer
	open        func(place) (channels.Channel, error)
}

// place is where a terminal talks: a Corebot of this process, or the daemon that runs on the home.
type place struct {
	watch func(corebot.Key) (<-chan live.Event, func())
	model string
}

// talk runs a terminal until it ends, at the daemon of the home or else at a Corebot of its own.
func (s *shell) talk(ctx context.Context, c config.Config, t conversation) error {
	daemon, running, err := control.Dial(ctx, app.DataDir(c.Home))
	if err != nil {
		return err
	}
	if running {
		return talkTo(ctx, daemon, t)
	}
	return talkHere(ctx, c, t)
}

func talkTo(ctx context.Context, daemon control.Caller, t conversation) error {
	at := &attached{daemon: daemon, chat: t.chat}
	if !t.publishOnly {
		if err := at.attach(ctx); err != nil {
			return err
		}
	}
	channel, err := t.open(place{at.events.Watch, at.model})
	if err != nil {
		return err
	}
	return final(at.run(ctx, channel))
}

// final takes an error out of what marks it as the channel's last.
func final(err error) error {
	if f := (*channels.Final)(nil); errors.As(err, &f) {
		return f.Err
	}
	return err
}

func talkHere(ctx context.Context, c config.Config, t conversation) (err error) {
	hide, err := redact.New(nil) // the app has it learn the secrets
	if err != nil {
		return err
	}
	log, closeLog, err := terminalLog(c, hide, t.interactive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	here := &terminal{}
	c.Bus.Drain = min(c.Bus.Drain, chatDrain)
	a, err := app.New(ctx, c, app.Options{
		Version: versionText(), Log: log, Redactor: hide, PublishOnly: t.publishOnly,
		Terminal: func(a *app.App) (_ channels.Channel, err error) {
			here.Channel, err = t.open(place{a.Live.Watch, a.ModelName()})
			return here, err
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	err = a.Run(ctx)
	return errors.Join(here.err, err)
}

// maxTerminalLog is the size over which the log of terminal sessions is begun anew.
const maxTerminalLog = 10 << 20

// terminalLog keeps the log away from a screen that is drawn on: it goes to a file. Elsewhere it goes to stderr, warnings only
// unless the settings ask for more.
func terminalLog(c config.Config, hide *redact.Redactor, interactive bool) (zerolog.Logger, func() error, error) {
	nothing := func() error { return nil }
	if !interactive {
		if c.Log.Level == "info" {
			c.Log.Level = "warn"
		}
		log, err := logger(c.Log, hide)
		return log, nothing, err
	}
	path := filepath.Join(app.DataDir(c.Home), "chat.log")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return zerolog.Nop(), nothing, fmt.Errorf("make the data directory: %w", err)
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > maxTerminalLog {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o600)
	if err != nil {
		return zerolog.Nop(), nothing, fmt.Errorf("open the log: %w", err)
	}
	log, err := observability.NewLogger(f, c.Log.Level, "json", hide)
	return log, f.Close, err
}

// whoRuns is the terminal's principal: the uid, which nobody can choose, and a name for display.
func whoRuns() (id, name string) {
	id = strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	return id, name
}
