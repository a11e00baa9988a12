package main

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQReplay(s *shell) *cobra.Command {
	var f deadFilter
	var fresh, all bool
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Put dead letters back into the queue",
		Long: `Put dead letters back at the tail of their chats' queues, under the same id and the original sender:
those that are named, or all that the flags mean, oldest first. Each resumes its journal: what its
tools have done is not done again. With --fresh it starts over. A reply is sent once more under the
same id.

A message whose queue is full, or that would not fit on the disk, stays a dead letter.`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, empty, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if err := needsFilter(cmd, empty, all); err != nil {
					return err
				}
				return s.replayAll(cmd, operate.Replay{Filter: &filter, Fresh: fresh})
			}
			if !empty || all {
				return usage(cmd, errors.New("name dead letters, or describe them with flags: not both"))
			}
			return s.replay(cmd, args, fresh)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start over instead of resuming the journal")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}

// replay replays letters one by one: each is said as soon as it is done.
func (s *shell) replay(cmd *cobra.Command, args []string, fresh bool) error {
	ids, err := s.named(cmd, args)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := letters(s, cmd, operate.ReplayDeadLetters, operate.Replay{IDs: []int64{id}, Fresh: fresh},
			fmt.Sprintf("replayed %d", id)); err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) replayAll(cmd *cobra.Command, args operate.Replay) error {
	return s.change(cmd, func(c control.Caller) error {
		done, err := operate.ReplayDeadLetters.Call(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "replayed %s\n",
			count(int64(done.Changed), "dead letter")); err != nil || done.Left == 0 {
			return err
		}
		return corebot.WithHint(fmt.Errorf("%s had no room in the queue: %s", count(int64(done.Left), "dead letter"),
			done.Why), "run the command again when the queue is shorter")
	})
}

func newDLQEdit(s *shell) *cobra.Command {
	var newID string
	cmd := &cobra.Command{
		Use:   "edit ID TEXT",
		Short: "Replay a dead letter with another text",
		Long: `Replay a dead letter with another text: as a new message of the same sender, with an id of its own.
"corebot why" shows that one came of the other. The dead letter itself ends as dropped.`,
		Args: takes("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := s.named(cmd, args[:1])
			if err != nil {
				return err
			}
			if newID == "" {
				newID = uuid.Must(uuid.NewV7()).String()
			}
			return letters(s, cmd, operate.EditDeadLetter, operate.Edit{ID: ids[0], NewID: newID, Text: args[1]},
				fmt.Sprintf("replayed %d as %s", ids[0], newID))
		},
	}
	cmd.Flags().StringVar(&newID, "id", "", "the new message's id (default: a new one)")
	return cmd
}

func newDLQDrop(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "drop ID...",
		Short: "Give dead letters up for good",
		Long: "Give dead letters up for good. Their content is deleted; their lives stay known to `corebot why` for " +
			"the retention time.",
		Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := s.named(cmd, args)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := letters(s, cmd, operate.DropDeadLetters, operate.Drop{IDs: []int64{id}},
					fmt.Sprintf("dropped %d", id)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newDLQPurge(s *shell) *cobra.Command {
	var f deadFilter
	var dryRun, all, yes bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Drop all dead letters that the flags mean",
		Long: `Drop all dead letters that the flags mean: their content is deleted for good. --dry-run lists them
and changes nothing; to drop them takes --yes. Without any other flag --all is needed.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, empty, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			if dryRun {
				return s.wouldPurge(cmd, filter)
			}
			if err := needsFilter(cmd, empty, all); err != nil {
				return err
			}
			if !yes {
				return usage(cmd, errors.New("purge deletes for good: look with --dry-run, then say --yes"))
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.PurgeDeadLetters.Call(cmd.Context(), c, operate.Purge{Filter: filter})
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "dropped %s\n", count(int64(done.Changed), "dead letter"))
				}
				return err
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, list what would be dropped")
	cmd.Flags().BoolVar(&yes, "yes", false, "drop them")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}

// wouldPurge lists what a purge would drop.
func (s *shell) wouldPurge(cmd *cobra.Command, f corebot.DeadLetterFilter) error {
	n, err := s.listDeadLetters(cmd, f, 0, "", false)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "would drop %s\n", count(int64(n), "dead letter"))
	return err
}

// letters makes one change of a dead letter and says so.
func letters[A any](s *shell, cmd *cobra.Command, op operate.Operation[A, operate.Done], args A, said string) error {
	return s.change(cmd, func(c control.Caller) error {
		if _, err := op.Call(cmd.Context(), c, args); err != nil {
			return hintOfLetter(err)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), said)
		return err
	})
}

// hintOfLetter says what to do about a dead letter that could not be changed.
func hintOfLetter(err error) error {
	switch {
	case errors.Is(err, corebot.ErrNotFound):
		return corebot.WithHint(err, "`corebot dlq list` shows the ids; one that is not there was replayed or dropped")
	case errors.Is(err, corebot.ErrLaneFull), errors.Is(err, corebot.ErrOverloaded):
		return corebot.WithHint(err, "it is still a dead letter; replay it when the queue is shorter")
	case errors.Is(err, corebot.ErrDiskFull):
		return corebot.WithHint(err, "it is still a dead letter; make room on the disk and replay it")
	}
	return err
}
