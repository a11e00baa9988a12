package main

import (
	"cmp"
	"context"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			chats, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.Chat, error) {
				return storage.NewChats(db).Page(ctx, channel, 0, limit)
			})
			if err != nil {
				return err
			}
			return printChats(cmd, chats, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&channel, "channel", "", "of this channel only")
	limitFlag(cmd, &limit, 1000, "at most this many")
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
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			found, err := read(s, cmd, func(ctx context.Context, db *storage.DB) (talk, error) { return talkOf(ctx, db, key, limit) })
			if err != nil {
				return err
			}
			if err := redactCalls(found.History); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, struct {
					chatRow
					talk
				}{rowOf(found.chat), found})
			}
			return printHistory(cmd, found)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 50, "at most this many entries, the newest")
	return cmd
}

// talk is what is in play of a chat.
type talk struct {
	chat    corebot.Chat
	Summary corebot.Summary        `json:"summary,omitzero"`
	History []corebot.HistoryEntry `json:"history"`
}

// talkOf reads a chat and the newest of its history.
func talkOf(ctx context.Context, db *storage.DB, k corebot.Key, limit int) (talk talk, err error) {
	if talk.chat, err = storage.NewChats(db).Chat(ctx, k); err != nil {
		return talk, err
	}
	if talk.chat.ID == 0 {
		return talk, corebot.WithHint(fmt.Errorf("chat %s: %w", k, corebot.ErrNotFound), "`corebot chats list` shows the keys")
	}
	history := storage.NewHistory(db)
	if talk.History, err = history.Recent(ctx, k, limit); err != nil {
		return talk, err
	}
	talk.Summary, err = history.Summary(ctx, k)
	return talk, err
}

func printHistory(cmd *cobra.Command, talk talk) error {
	t, chat, summary := &teller{w: cmd.OutOrStdout()}, talk.chat, talk.Summary
	t.line("%s  %s", chat.Key, oneLine(chat.DisplayName, 60))
	t.line("registered %v, access %s, session %d, queue mode %s, since %s\n", chat.Registered, cmp.Or(chat.Access, byDefault), chat.Session,
		cmp.Or(chat.QueueMode, byDefault), chat.CreatedAt.Local().Format(time.DateTime))
	if summary.Through > 0 {
		t.line("what the model is shown of older messages, by %s at %s:\n%s\n", cmp.Or(oneLine(summary.Model, 64), "an extract"), clock(summary.At), printable(summary.Text))
	}
	for _, e := range talk.History {
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
func redactCalls(history []corebot.HistoryEntry) error {
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
