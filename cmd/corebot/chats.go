package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/operate"
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
			_, err := chatTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.Chat], error) {
				return look(s, cmd, operate.ListChats, operate.ChatsQuery{Channel: channel, Part: p})
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&channel, "channel", "", "of this channel only")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var chatTable = listing[operate.Chat]{
	header: "KEY\tNAME\tREGISTERED\tACCESS\tSESSION\tMODE\tSINCE",
	none:   "no chats",
	cells: func(c operate.Chat) string {
		return fmt.Sprintf("%s\t%s\t%v\t%s\t%d\t%s\t%s", c.Key, oneLine(c.DisplayName, 30), c.Registered, cmp.Or(c.Access, byDefault), c.Session,
			cmp.Or(c.QueueMode, byDefault), c.CreatedAt.Local().Format(time.DateTime))
	},
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
			found, err := look(s, cmd, operate.ShowChat, operate.ChatQuery{Key: key, Limit: limit})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, found)
			}
			return printHistory(cmd, found)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 50, "at most this many entries, the newest")
	return cmd
}

func printHistory(cmd *cobra.Command, c operate.Conversation) error {
	t, chat, summary := &teller{w: cmd.OutOrStdout()}, c.Chat, c.Summary
	t.line("%s  %s", chat.Key, oneLine(chat.DisplayName, 60))
	t.line("registered %v, access %s, session %d, queue mode %s, since %s\n", chat.Registered, cmp.Or(chat.Access, byDefault), chat.Session,
		cmp.Or(chat.QueueMode, byDefault), chat.CreatedAt.Local().Format(time.DateTime))
	if !summary.At.IsZero() {
		t.line("what the model is shown of older messages, by %s at %s:\n%s\n", cmp.Or(oneLine(summary.Model, 64), "an extract"), clock(summary.At), printable(summary.Text))
	}
	for _, e := range c.History {
		who := string(e.Speaker)
		if e.Name != "" {
			who += " " + oneLine(e.Name, 30)
		}
		text := oneLine(e.Text(), 300)
		for _, c := range e.Calls {
			text += fmt.Sprintf(" [%s %s]", oneLine(c.Tool, 40), oneLine(string(c.Args), 80))
		}
		t.line("%s  %-10s %s", clock(e.At), who, text)
	}
	return t.err
}
