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
	"github.com/corebot/corebot/internal/mention"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/observability"
)

// chatDrain is how long a turn may go on after the user left; what is not finished resumes at the next start.
const chatDrain = 2 * time.Second

var errNoChat = errors.New("--chat is empty")

func newChat(s *shell) *cobra.Command {
	var chat, agent, resume string
	var list bool
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to it here in the terminal",
		Long: `Talk to Corebot here in the terminal, over the same queue and router as every other channel. When
input or output is not a terminal, every line of input is one message and every reply is printed
plainly.

Enter sends, Ctrl-J begins a new line. Ctrl-C clears what is typed; with nothing typed it stops the
answer that is being made; pressed again, or with nothing to stop, it leaves. So do Ctrl-D and
/quit. /help lists the commands of the chat. Tab completes commands and paths. @FILE in a message
attaches the text of a file of this machine.

A chat that is opened again shows its last messages first. --list lists the chats of terminals, the
newest first, each with a number and its name, which /name gives. --resume opens one of them.

The terminal is attached to the Corebot that runs on this home; if none runs, it is one itself, and
other commands and terminals attach to it. Several terminals can have the same chat open. When a
"corebot serve" ends, its terminals wait until it is back; when the terminal ends that the others
were attached to, one of them goes on in its place.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case chat == "":
				return usage(cmd, errNoChat)
			case resume == "" && cmd.Flags().Changed("resume"):
				return usage(cmd, errors.New("--resume is empty"))
			case list:
				return s.listTalks(cmd, agent)
			}
			return s.open(cmd, agent, chat, resume)
		},
	}
	cmd.Flags().StringVar(&chat, "chat", "main", "which chat to talk in")
	cmd.Flags().BoolVar(&list, "list", false, "list the chats of terminals, with their numbers and names")
	cmd.Flags().StringVar(&resume, "resume", "", "go on in the chat with this number of --list, or this name")
	cmd.MarkFlagsMutuallyExclusive("chat", "list", "resume")
	chatAgentFlag(cmd, &agent)
	return cmd
}

// open finds out which chat is meant, and talks in it.
func (s *shell) open(cmd *cobra.Command, agent, chat, resume string) error {
	if resume != "" {
		k, err := s.resumed(cmd, agent, resume)
		if err != nil {
			return err
		}
		chat, agent = k.Chat, k.Agent
	}
	c, err := s.settings()
	if err != nil {
		return err
	}
	if agent, err = agentOf(c, agent, chat); err != nil {
		return err
	}
	return s.converse(cmd, c, agent, chat)
}

// converse talks in a chat until the person leaves.
func (s *shell) converse(cmd *cobra.Command, c config.Config, agent, chat string) error {
	interactive := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) &&
		os.Getenv("TERM") != "dumb" // which cannot be drawn on
	return s.talk(cmd.Context(), c, conversation{
		chat: chat, agent: agent, interactive: interactive,
		open: func(at *attached, model string) (cli.Terminal, error) {
			id, name := whoRuns()
			var past []corebot.HistoryEntry
			if interactive {
				past = at.earlier(cmd.Context())
			}
			c, err := cli.New(cli.Options{
				In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Interactive: interactive,
				Agent: agent, Chat: chat, UserID: id, UserName: name, Watch: at.events.Watch, ModelName: model,
				HistoryFile: filepath.Join(app.DataDir(c.Home), "prompts"),
				NoColor:     os.Getenv("NO_COLOR") != "",
				Charset:     cli.Charset(os.Getenv),
				Past:        past,
				Output:      at.output,
				Rename:      at.rename,
				Session:     at.session,
				Files:       mention.Reader{Home: c.Home, User: userHome(), Secret: roots.Secret},
			})
			at.tell = func(p app.Place) { c.Connection(placeText(p), p.Gone) }
			return c, err
		},
	})
}

// conversation is what one terminal of this process does with a chat.
type conversation struct {
	agent, chat string
	interactive bool
	passing     bool // it ends with one message
	open        func(at *attached, model string) (cli.Terminal, error)
}

// talk runs a terminal until it ends, at the Corebot of the home: the one that runs, or else one of this process.
func (s *shell) talk(ctx context.Context, c config.Config, t conversation) (err error) {
	at := &attached{agent: t.agent, chat: t.chat}
	if !t.interactive {
		at.patient = app.Away
	}
	link, closeLink := newLink(c, t.interactive, t.passing, func(p app.Place) {
		if p.Gone || p.Again {
			at.tell(p)
		}
	})
	defer func() { err = errors.Join(err, closeLink()) }()
	at.link = link
	place, err := link.Open(ctx)
	if err != nil {
		return err
	}
	channel, err := t.open(at, place.Model)
	if err != nil {
		return err
	}
	if err := at.attach(ctx); err != nil {
		return err
	}
	return final(at.run(ctx, channel))
}

// placeText tells a person which Corebot he is at.
func placeText(p app.Place) string {
	switch {
	case p.Gone && p.Daemon:
		return "Corebot has stopped. Waiting for it to come back: what you type is kept, and sent then."
	case p.Gone:
		return fmt.Sprintf("The Corebot that answered here, process %d, has ended.", p.PID)
	case p.Here:
		return fmt.Sprintf("Corebot runs in this process now, with %s.", p.Model)
	}
	return fmt.Sprintf("Attached to Corebot again: process %d, with %s.", p.PID, p.Model)
}

// final takes an error out of what marks it as the channel's last.
func final(err error) error {
	if f := (*channels.Final)(nil); errors.As(err, &f) {
		return f.Err
	}
	return err
}

// newLink makes a way to the Corebot of the home. close ends the Corebot of this process, if there is one.
func newLink(c config.Config, interactive, passing bool, tell func(app.Place)) (_ *app.Link, closeLink func() error) {
	closeLog := func() error { return nil }
	link := app.NewLink(c.Home, func(ctx context.Context) (*app.App, error) {
		hide, err := redact.New(nil) // the app has it learn the secrets
		if err != nil {
			return nil, err
		}
		log, done, err := terminalLog(c, hide, interactive)
		if err != nil {
			return nil, err
		}
		a, err := app.New(ctx, c, app.Options{
			Version: app.Version(), Log: log, Redactor: hide, Attended: true, Drain: chatDrain,
			Passing: passing,
		})
		if err != nil {
			return nil, errors.Join(err, done())
		}
		closeLog = done
		return a, nil
	}, tell)
	return link, func() error { return errors.Join(link.Close(), closeLog()) }
}

// maxTerminalLog is the size over which the log of terminal sessions is begun anew.
const maxTerminalLog = 10 << 20

// terminalLog keeps the log away from a screen that is drawn on: it goes to a file. Elsewhere it goes to stderr,
// warnings only unless the settings ask for more.
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

// userHome is the home of whoever runs the terminal, or empty.
func userHome() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// whoRuns is the terminal's principal: the uid, which nobody can choose, and a name for display.
func whoRuns() (id, name string) {
	id = strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	return id, name
}
