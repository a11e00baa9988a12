package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
)

func newDLQReplay(s *shell) *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "replay ID...",
		Short: "Put dead letters back into the queue",
		Long: `Put dead letters back at the tail of their chats' queues, under the same id and the original sender. Each resumes its journal: what
its tools have done is not done again. With --fresh it starts over.`,
		Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := deadLetterIDs(cmd, args)
			if err != nil {
				return err
			}
			for _, id := range ids { // one by one: each is said as soon as it is done
				if err := s.letters(cmd, app.OpReplay, app.Replay{IDs: []int64{id}, Fresh: fresh}, fmt.Sprintf("replayed %d", id)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start over instead of resuming the journal")
	return cmd
}

func newDLQEdit(s *shell) *cobra.Command {
	var newID string
	cmd := &cobra.Command{
		Use:   "edit ID TEXT",
		Short: "Replay a dead letter with another text",
		Long: `Replay a dead letter with another text: as a new message of the same sender, with an id of its own. "corebot why" shows that one came
of the other. The dead letter itself ends as dropped.`,
		Args: takes("ID", "TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := deadLetterIDs(cmd, args[:1])
			if err != nil {
				return err
			}
			if newID == "" {
				newID = uuid.Must(uuid.NewV7()).String()
			}
			return s.letters(cmd, app.OpEdit, app.Edit{ID: ids[0], NewID: newID, Text: args[1]}, fmt.Sprintf("replayed %d as %s", ids[0], newID))
		},
	}
	cmd.Flags().StringVar(&newID, "id", "", "the new message's id (default: a new one)")
	return cmd
}

func newDLQDrop(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "drop ID...",
		Short: "Give dead letters up for good",
		Long:  "Give dead letters up for good. Their content is deleted; their lives stay known to `corebot why` for the retention time.",
		Args:  takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := deadLetterIDs(cmd, args)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := s.letters(cmd, app.OpDrop, app.Drop{IDs: []int64{id}}, fmt.Sprintf("dropped %d", id)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newDLQPurge(s *shell) *cobra.Command {
	var f deadFilter
	var dryRun, all bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Drop all dead letters that the flags mean",
		Long:  "Drop all dead letters that the flags mean, in one step. --dry-run only says how many there are. Without any other flag --all is needed.",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.parse(cmd)
			if err != nil {
				return err
			}
			if filter == (corebot.DeadLetterFilter{}) && !all && !dryRun {
				return usage(cmd, errors.New("purge needs a flag that says which dead letters are meant, or --all"))
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := control.Call[app.Done](cmd.Context(), c, app.OpPurge, app.Purge{Filter: filter, DryRun: dryRun})
				if err != nil {
					return err
				}
				verb := "dropped"
				if dryRun {
					verb = "would drop"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", verb, count(int64(done.Changed), "dead letter"))
				return err
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, say how many there are")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}

// letters makes one change of a dead letter and says so.
func (s *shell) letters(cmd *cobra.Command, op string, args any, said string) error {
	return s.change(cmd, func(c control.Caller) error {
		if _, err := control.Call[app.Done](cmd.Context(), c, op, args); err != nil {
			if errors.Is(err, corebot.ErrNotFound) {
				err = corebot.WithHint(err, "`corebot dlq list` shows the ids; one that is not there was replayed or dropped")
			}
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), said)
		return err
	})
}

func deadLetterIDs(cmd *cobra.Command, args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, a := range args {
		id, err := deadLetterID(cmd, a)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

func deadLetterID(cmd *cobra.Command, s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, usage(cmd, fmt.Errorf("dead letter id %q: want a number as `corebot dlq list` shows it", s))
	}
	return id, nil
}
