package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
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
	Key         string             `json:"key"`
	Channel     string             `json:"channel"`
	ChatID      string             `json:"chatId"`
	DisplayName string             `json:"displayName"`
	Registered  bool               `json:"registered"`
	Session     int64              `json:"session"`
	QueueMode   corebot.QueueMode  `json:"queueMode,omitempty"` // left out: the configured default
	Model       string             `json:"model,omitempty"`     // left out: the configured one
	Access      corebot.ChatAccess `json:"access,omitempty"`    // left out: by the rule of its channel
	CreatedAt   time.Time          `json:"createdAt"`
}

func rowOf(c corebot.Chat) chatRow {
	return chatRow{c.Key.String(), c.Key.Channel, c.Key.Chat, c.DisplayName, c.Registered, c.Session, c.QueueMode, c.Model, c.Access, c.CreatedAt}
}

func printChats(cmd *cobra.Command, chats []corebot.Chat, asJSON bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	if !asJSON && len(chats) > 0 {
		t.line("KEY\tNAME\tREGISTERED\tACCESS\tSESSION\tMODE\tSINCE")
	}
	for _, c := range chats {
		if asJSON {
			if err := printJSON(cmd, rowOf(c)); err != nil {
				return err
			}
			continue
		}
		t.line("%s\t%s\t%v\t%s\t%d\t%s\t%s", c.Key, oneLine(c.DisplayName, 30), c.Registered, cmp.Or(c.Access, byDefault), c.Session, cmp.Or(c.QueueMode, byDefault), c.CreatedAt.Local().Format(time.DateTime))
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
			if err := redactCalls(history); err != nil {
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
	t.line("registered %v, access %s, session %d, queue mode %s, since %s\n", chat.Registered, cmp.Or(chat.Access, byDefault), chat.Session,
		cmp.Or(chat.QueueMode, byDefault), chat.CreatedAt.Local().Format(time.DateTime))
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

// redactCalls takes what looks like a secret out of the arguments of tool calls, which are stored as the model wrote them.
func redactCalls(history []corebot.Entry) error {
	r, err := redact.New(nil)
	if err != nil {
		return err
	}
	for _, e := range history {
		for i, c := range e.Calls {
			e.Calls[i].Args = json.RawMessage(r.Args(c.Args, len(c.Args)+maxShownArgs))
		}
	}
	return nil
}

// maxShownArgs is how much longer arguments may become by redacting them.
const maxShownArgs = 1 << 10
