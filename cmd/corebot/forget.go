package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsDelete(s *shell) *cobra.Command {
	var dry, yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete all that is kept of a chat, for good",
		Long: `Delete all that is kept of a chat, for good: its messages, history, summaries, memory, files, tasks,
roles and lasting approvals, those of its threads and child turns, and what it asked other agents. A
KEY with a thread means that thread alone. Free pages of the database and its write-ahead log are
overwritten.

The audit trail keeps that calls happened, and loses their arguments. Usage keeps its sums. Backups
that were made before still have the chat. Ids of the deleted messages are not known any more: one
that a network delivers again is answered.

Forks of the chat are chats of their own: the command names them, and they stay.

At a terminal the command shows how much would go, and asks first; --yes leaves the question out.
Without a terminal nobody is asked.

Nothing is deleted while a message of the chat waits or runs. Messages that come meanwhile wait until
the deletion has ended. Programs of the chat in the background are stopped. The same command goes on
with a deletion that was cut off.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			var lost operate.LostChat
			a := newAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err := s.change(cmd, func(c control.Caller) (err error) {
				if a != nil && !dry && !yes {
					if err := confirmLoss(cmd, a, c, key); err != nil {
						return err
					}
				}
				lost, err = operate.DeleteChat.Call(cmd.Context(), c, operate.ChatLoss{Key: key, Dry: dry})
				return err
			}); err != nil {
				return err
			}
			switch {
			case asJSON && dry:
				return printJSON(cmd, lossAhead{LostChat: lost})
			case asJSON:
				return printJSON(cmd, lost)
			}
			return tellLost(&teller{w: cmd.OutOrStdout()}, lost, dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be deleted, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without a question")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// lossAhead is what would be deleted, without the numbers that only a deletion knows.
type lossAhead struct {
	operate.LostChat
	Arguments     *int64 `json:"arguments,omitempty"`
	KeptArguments *int64 `json:"keptArguments,omitempty"`
	Pages         *int64 `json:"pages,omitempty"`
}

// confirmLoss shows a person what a deletion would take, and asks. A chat of which nothing is known is not asked about:
// what an earlier deletion has left goes.
func confirmLoss(cmd *cobra.Command, a *asker, c control.Caller, key corebot.Key) error {
	lost, err := operate.DeleteChat.Call(cmd.Context(), c, operate.ChatLoss{Key: key, Dry: true})
	if errors.Is(err, corebot.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = tellLost(&teller{w: cmd.ErrOrStderr()}, lost, true)
	}
	if err != nil {
		return err
	}
	return a.confirm(cmd.Context(), "Delete all of that for good?")
}

func tellLost(t *teller, lost operate.LostChat, dry bool) error {
	verb := "deleted"
	if dry {
		verb = "would delete"
	}
	for _, k := range lost.Keys {
		t.line("%s %s", verb, k)
	}
	if len(lost.Forks) > 0 {
		t.line("forks, which are chats of their own and stay with what was copied into them; the same command " +
			"deletes each:")
	}
	for _, k := range lost.Forks {
		t.line("  %s", k)
	}
	for _, part := range []struct {
		n         int64
		one, many string
	}{
		{lost.Messages, "message", "messages"},
		{lost.History, "entry of the history", "entries of the history"},
		{lost.Facts, "fact", "facts"},
		{lost.Mail, "reply that could be fetched", "replies that could be fetched"},
		{lost.Tasks, "task", "tasks"},
		{lost.Rules, "lasting approval", "lasting approvals"},
		{lost.Grants, "role in the chat", "roles in the chat"},
		{lost.Versions, "kept change of a file", "kept changes of files"},
		{lost.Files, "file", "files"},
		{
			lost.Arguments, "event of the audit trail that lost its arguments",
			"events of the audit trail that lost their arguments",
		},
	} {
		switch {
		case part.n == 1:
			t.line("  %6d  %s", part.n, part.one)
		case part.n > 1:
			t.line("  %6d  %s", part.n, part.many)
		}
	}
	if dry {
		return t.err
	}
	if lost.KeptArguments > 0 {
		t.line("%s of an older version keep their arguments until audit retention deletes them",
			count(lost.KeptArguments, "audit event"))
	}
	t.line("backups that were made before still have the chat")
	return t.err
}

func newDBReindex(s *shell) *cobra.Command {
	var vectors bool
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Make the search index of the history anew",
		Long: `Make the search index of the history anew. A running Corebot fills it behind its turns; without one the
next start does. Searches find everything meanwhile, more slowly.

With --vectors all texts are also sent to the service of llm.embeddings again, which costs what it
costs. Each text keeps its old vector until it has its new one. A Corebot that is killed goes on where
it was.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.hasDatabase(cmd.Context()); err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				found, err := operate.Reindex.Call(cmd.Context(), c, operate.Reindexing{Vectors: vectors})
				if err != nil {
					return err
				}
				and := ""
				if vectors {
					and = ", and the vectors too"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the search index is made anew from %s%s\n",
					plural(found.Entries, "entry", "entries"), and)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&vectors, "vectors", false, "also send all texts to the service of llm.embeddings again")
	return cmd
}
