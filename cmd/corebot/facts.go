package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newFacts(s *shell) *cobra.Command {
	return group("facts", "List, show and forget facts: what people said, as subject, relation and object",
		newFactsList(s), newFactsShow(s), newFactsForget(s))
}

func newFactsList(s *shell) *cobra.Command {
	var asJSON, superseded bool
	var agent, channel string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [KEY]",
		Short: "List the facts that a chat knows, or all facts, the newest first",
		Long: `List the facts that a chat knows, the newest first. Without a chat, list the facts of all chats. With
--channel, list those that all chats of an account of a channel know.`,
		Args: maybe("KEY"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			q := operate.FactQuery{Agent: agent, Superseded: superseded}
			switch {
			case len(args) > 0 && (channel != "" || agent != ""):
				return usage(cmd, errors.New("a chat has its own facts: name it without --channel and --agent"))
			case len(args) > 0:
				q.Key, err = s.chat(cmd, args[0])
			case channel != "":
				q.Key, err = s.sharedKey(channel, agent)
			}
			if err != nil {
				return err
			}
			_, err = factTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.Fact], error) {
				q.Part = p
				return look(s, cmd, operate.ListFacts, q)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&agent, "agent", "", "of the chats of this agent only: its id")
	cmd.Flags().StringVar(&channel, "channel", "", "those that all chats of this account know: KIND or KIND/ACCOUNT")
	cmd.Flags().BoolVar(&superseded, "superseded", false, "also facts that newer ones have superseded")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var factTable = listing[operate.Fact]{
	header: "ID\tCHAT\tFACT\tSAID BY\tAT\tSTATE",
	none:   "no facts",
	cells: func(f operate.Fact) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s", f.ID, oneLine(f.ChatID, 60), oneLine(inWords(f), 120),
			oneLine(saidByWhom(f), 60), f.At.Local().Format(time.DateTime), factState(f))
	},
}

func inWords(f operate.Fact) string { return f.Subject + " · " + f.Relation + " · " + f.Object }

func saidByWhom(f operate.Fact) string {
	if f.Sender == "" {
		return "-"
	}
	return f.Sender
}

// factState says whether a fact holds, and whether its sender alone had a hand in it.
func factState(f operate.Fact) string {
	switch {
	case f.SupersededBy > 0:
		return fmt.Sprintf("superseded by %d", f.SupersededBy)
	case f.Trusted:
		return "trusted"
	case f.Taint != "":
		return "untrusted"
	}
	return "holds"
}

func newFactsShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a fact: who said it, where, and what took its place",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := factIDs(cmd, args)
			if err != nil {
				return err
			}
			f, err := look(s, cmd, operate.ShowFact, operate.ByFact{ID: ids[0]})
			if err != nil || asJSON {
				return errors.Join(err, printIf(cmd, err == nil, f))
			}
			t := &teller{w: cmd.OutOrStdout()}
			t.line("fact %d: %s", f.ID, oneLine(inWords(f), 3*corebot.MaxFactField))
			t.line("  said by %s in message %s, %s", oneLine(saidByWhom(f), 200), oneLine(f.MessageID, 200),
				f.At.Local().Format(time.DateTime))
			t.line("  chat: %s, scope %s", oneLine(f.ChatID, 500), f.Scope)
			t.line("  state: %s", factState(f))
			if f.Taint != "" {
				t.line("  untrusted: %s", oneLine(f.Taint, 500))
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newFactsForget(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ID...",
		Short: "Delete facts by their ids",
		Long: `Delete facts by their ids, as "corebot memory facts list" prints them. They leave every index. The audit
keeps that facts were deleted, and not which. History is not changed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := factIDs(cmd, args)
			if err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.ForgetFacts.Call(cmd.Context(), c, operate.ByFacts{IDs: ids})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "facts forgotten: %d\n", done.Changed)
				return err
			})
		},
	}
}

func factIDs(cmd *cobra.Command, args []string) (ids []int64, err error) {
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 1 {
			return nil, usage(cmd, fmt.Errorf("%q is not the id of a fact", arg))
		}
		ids = append(ids, id)
	}
	return ids, nil
}
