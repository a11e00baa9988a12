package main

import (
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/storage"
)

func newChats(s *shell) *cobra.Command {
	return group("chats", "List, show, register, set and reset chats", newChatsList(s), newChatsShow(s), newChatsRegister(s), newChatsSet(s), newChatsModel(s), newChatsReset(s))
}

func newChatsList(s *shell) *cobra.Command {
	var asJSON bool
	var channel string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the chats that Corebot knows",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if limit < 1 {
				return usage(cmd, fmt.Errorf("--limit %d: want at least 1", limit))
			}
			db, err := s.reader(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			chats, err := storage.NewChats(db).List(cmd.Context(), channel, limit)
			if err != nil {
				return err
			}
			return printChats(cmd, chats, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&channel, "channel", "", "of this channel only")
	cmd.Flags().IntVar(&limit, "limit", 1000, "at most this many")
	return cmd
}

// chatRow is what `chats list --json` prints.
type chatRow struct {
	Key         string            `json:"key"`
	Channel     string            `json:"channel"`
	ChatID      string            `json:"chatId"`
	DisplayName string            `json:"displayName"`
	Registered  bool              `json:"registered"`
	Session     int64             `json:"session"`
	QueueMode   corebot.QueueMode `json:"queueMode,omitempty"` // left out: the configured default
	CreatedAt   time.Time         `json:"createdAt"`
}

func rowOf(c corebot.Chat) chatRow {
	return chatRow{c.Key.String(), c.Key.Channel, c.Key.Chat, c.DisplayName, c.Registered, c.Session, c.QueueMode, c.CreatedAt}
}

func printChats(cmd *cobra.Command, chats []corebot.Chat, asJSON bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	if !asJSON && len(chats) > 0 {
		t.line("KEY\tNAME\tREGISTERED\tSESSION\tMODE\tSINCE")
	}
	for _, c := range chats {
		if asJSON {
			if err := printJSON(cmd, rowOf(c)); err != nil {
				return err
			}
			continue
		}
		t.line("%s\t%s\t%v\t%d\t%s\t%s", c.Key, oneLine(c.DisplayName, 30), c.Registered, c.Session, cmp.Or(c.QueueMode, byDefault), c.CreatedAt.Local().Format(time.DateTime))
	}
	if len(chats) == 0 && !asJSON {
		t.line("no chats")
	}
	return errors.Join(t.err, table.Flush())
}

func newChatsShow(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show a chat and the history that is in play",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			key, err := corebot.ParseKey(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			db, err := s.reader(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			chat, err := storage.NewChats(db).Chat(cmd.Context(), key)
			if err == nil && chat.ID == 0 {
				err = corebot.WithHint(fmt.Errorf("chat %s: %w", key, corebot.ErrNotFound), "`corebot chats list` shows the keys")
			}
			if err != nil {
				return err
			}
			history, err := storage.NewHistory(db).Recent(cmd.Context(), key, limit)
			if err != nil {
				return err
			}
			summary, err := storage.NewHistory(db).Summary(cmd.Context(), key)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, struct {
					chatRow
					Summary corebot.Summary `json:"summary,omitzero"`
					History []corebot.Entry `json:"history"`
				}{rowOf(chat), summary, history})
			}
			return printHistory(cmd, chat, summary, history)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().IntVar(&limit, "limit", 50, "at most this many entries, the newest")
	return cmd
}

func printHistory(cmd *cobra.Command, chat corebot.Chat, summary corebot.Summary, history []corebot.Entry) error {
	t := &teller{w: cmd.OutOrStdout()}
	t.line("%s  %s", chat.Key, oneLine(chat.DisplayName, 60))
	t.line("registered %v, session %d, queue mode %s, since %s\n", chat.Registered, chat.Session, cmp.Or(chat.QueueMode, byDefault), chat.CreatedAt.Local().Format(time.DateTime))
	if summary.Through > 0 {
		t.line("what the model is shown of older messages, by %s at %s:\n%s\n", cmp.Or(oneLine(summary.Model, 64), "an extract"), clock(summary.At), printable(summary.Text))
	}
	for _, e := range history {
		who := string(e.Speaker)
		if e.Name != "" {
			who += " " + oneLine(e.Name, 30)
		}
		text := oneLine(e.Text, 300)
		for _, c := range e.Calls {
			text += fmt.Sprintf(" [%s %s]", oneLine(c.Tool, 40), oneLine(string(c.Args), 80))
		}
		t.line("%s  %-10s %s", clock(e.At), who, text)
	}
	return t.err
}

func newChatsRegister(s *shell) *cobra.Command {
	var name string
	var off bool
	cmd := &cobra.Command{
		Use:   "register KEY",
		Short: "Mark a chat as registered, or with --off as not",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			said := "registered"
			if off {
				said = "no longer registered:"
			}
			return s.changeChat(cmd, app.OpRegister, args[0], app.ChatChange{Registered: !off, Name: name}, said)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for display")
	cmd.Flags().BoolVar(&off, "off", false, "take the registration away")
	return cmd
}

func newChatsReset(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "reset KEY",
		Short: "Begin a new conversation in a chat; what was said is kept and out of play",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeChat(cmd, app.OpReset, args[0], app.ChatChange{}, "reset")
		},
	}
}

func (s *shell) changeChat(cmd *cobra.Command, op, key string, change app.ChatChange, said string) (err error) {
	if change.Key, err = corebot.ParseKey(key); err != nil {
		return usage(cmd, err)
	}
	return s.change(cmd, func(c control.Caller) error {
		if _, err := control.Call[app.Done](cmd.Context(), c, op, change); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, change.Key)
		return err
	})
}
