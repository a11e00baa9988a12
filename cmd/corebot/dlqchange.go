package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQReplay(s *shell) *cobra.Command {
	var f deadFilter
	var fresh, all, dryRun, resume bool
	var rate float64
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Put dead letters back into the queue",
		Long: `Put dead letters back at the tail of their chats' queues, under the same id and the original sender:
those that are named, or all that the flags mean, oldest first. Each resumes its journal: what its
tools have done is not done again. With --fresh it starts over. A reply is sent once more under the
same id.

With --rate so many are replayed a second. A running Corebot goes on with it by itself, also after a
restart; "corebot dlq replays" shows how far it is. At most one replay of many is open. After a crash
the same command, or --resume, goes on behind the last letter: none is replayed twice.

A message whose queue is full, or that would not fit on the disk, stays a dead letter. With --rate the
replay waits while there is no room for any message.`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, empty, err := f.parse(s, cmd)
			if err == nil && cmd.Flags().Changed("rate") { // JSON has no word for NaN
				if err = operate.CheckReplayRate(rate); err != nil {
					return usage(cmd, err)
				}
			}
			named := len(args) > 0
			switch {
			case err != nil:
				return err
			case named && (!empty || all || resume):
				return usage(cmd, errors.New("name dead letters, or describe them with flags: not both"))
			case cmd.Flags().Changed("rate") && (named || resume):
				return usage(cmd, errors.New("--rate goes with flags that say which dead letters are meant"))
			case dryRun && named:
				return s.wouldReplay(cmd, args)
			case dryRun:
				return s.wouldChange(cmd, filter, "replay", rate)
			case named:
				return s.replay(cmd, args, fresh)
			case resume:
				return s.resumeReplay(cmd, !empty || all)
			}
			if err := needsFilter(cmd, empty, all); err != nil {
				return err
			}
			if cmd.Flags().Changed("rate") {
				return s.replayAt(cmd, operate.PacedReplay{Filter: filter, Fresh: fresh, Rate: rate})
			}
			return s.replayAll(cmd, operate.Replay{Filter: &filter, Fresh: fresh})
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start over instead of resuming the journal")
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, list what would be replayed")
	cmd.Flags().Float64Var(&rate, "rate", 0, "at most this many messages a second, 0.001 to 1000 (default: at once)")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on with the replay that is open")
	return cmd
}

// wouldReplay says of each named letter whether it would be replayed.
func (s *shell) wouldReplay(cmd *cobra.Command, args []string) error {
	ids, err := s.named(cmd, args)
	if err != nil {
		return err
	}
	for _, id := range ids {
		life, err := look(s, cmd, operate.ShowDeadLetter, operate.ByID{ID: id})
		if err != nil {
			return hintOfLetter(err)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "would replay %d: message %s of %s\n", id,
			printable(life.MessageID), printable(life.Key.String())); err != nil {
			return err
		}
	}
	return nil
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
		return replayed(cmd, done.Changed, done.Left, done.Why)
	})
}

func replayed(cmd *cobra.Command, changed, left int, why string) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "replayed %s\n", count(int64(changed), "dead letter")); err != nil ||
		left == 0 {
		return err
	}
	return corebot.WithHint(fmt.Errorf("%s had no room in the queue: %s", count(int64(left), "dead letter"), why),
		"run the command again when the queue is shorter")
}

// replayAt begins a replay with a rate, and waits for its end.
func (s *shell) replayAt(cmd *cobra.Command, args operate.PacedReplay) error {
	return s.change(cmd, func(c control.Caller) error {
		r, err := operate.BeginReplay.Call(cmd.Context(), c, args)
		if err != nil {
			if errors.Is(err, corebot.ErrInvalid) {
				err = usage(cmd, err)
			}
			return err
		}
		return waitReplay(cmd, c, r)
	})
}

// resumeReplay waits for the end of the open replay, and makes it go on where no Corebot runs.
func (s *shell) resumeReplay(cmd *cobra.Command, described bool) error {
	if described {
		return usage(cmd, errors.New("--resume goes on with the letters of the open replay: leave the other flags out"))
	}
	return s.change(cmd, func(c control.Caller) error {
		found, err := operate.ListReplays.Call(cmd.Context(), c, operate.Part{Limit: 1})
		if err != nil {
			return err
		}
		if len(found.Rows) == 0 || !found.Rows[0].EndedAt.IsZero() {
			return corebot.WithHint(errors.New("no replay is open"), "`corebot dlq replays` shows the earlier ones")
		}
		return waitReplay(cmd, c, found.Rows[0])
	})
}

// waitReplay makes a replay go on until it ends. A running Corebot does so, too.
func waitReplay(cmd *cobra.Command, c control.Caller, r corebot.Replaying) (err error) {
	for id := r.ID; r.EndedAt.IsZero(); {
		r, err = operate.StepReplay.Call(cmd.Context(), c, operate.ByID{ID: id})
		if err == nil && r.EndedAt.IsZero() {
			select {
			case <-time.After(min(max(time.Until(r.NextAt), 20*time.Millisecond), time.Second)):
			case <-cmd.Context().Done():
				err = cmd.Context().Err()
			}
		}
		if err != nil {
			return corebot.WithHint(fmt.Errorf("replay %d is still open: %w", id, err), "a running Corebot goes on "+
				"with it; `corebot dlq replays` shows it, and `corebot dlq replay --resume` waits for it")
		}
	}
	if r.Stopped {
		return fmt.Errorf("replay %d was stopped: it had replayed %s", r.ID, count(int64(r.Done), "dead letter"))
	}
	return replayed(cmd, r.Done, r.Left, r.Why)
}

func newDLQReplays(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replays",
		Short: "List the replays of many dead letters, or stop the open one",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := listing[corebot.Replaying]{
				header: "ID\tBEGAN\tSTATE\tREPLAYED\tLEFT\tRATE\tWHY", none: "no replays", cells: replayCells,
			}
			_, err := list.print(cmd, asJSON, 20, func(p operate.Part) (operate.Page[corebot.Replaying], error) {
				return look(s, cmd, operate.ListReplays, p)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.AddCommand(&cobra.Command{
		Use:   "stop ID",
		Short: "End a replay; what it has replayed stays replayed",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id < 1 {
				return usage(cmd, fmt.Errorf("replay %q: want a number as `corebot dlq replays` shows it", args[0]))
			}
			return s.change(cmd, func(c control.Caller) error {
				r, err := operate.StopReplay.Call(cmd.Context(), c, operate.ByID{ID: id})
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "stopped replay %d: it had replayed %s\n", id,
						count(int64(r.Done), "dead letter"))
				}
				return err
			})
		},
	})
	return cmd
}

func replayCells(r corebot.Replaying) string {
	state, rate := "open", "at once"
	switch {
	case r.Stopped:
		state = "stopped"
	case !r.EndedAt.IsZero():
		state = "done"
	}
	if r.Every > 0 {
		rate = strconv.FormatFloat(float64(time.Second)/float64(r.Every), 'g', 4, 64) + "/s"
	}
	return fmt.Sprintf("%d\t%s\t%s\t%d\t%d\t%s\t%s", r.ID, r.BeganAt.Local().Format(time.DateTime), state, r.Done,
		r.Left, rate, oneLine(r.Why, 80))
}

func newDLQEdit(s *shell) *cobra.Command {
	var newID string
	cmd := &cobra.Command{
		Use:   "edit ID TEXT",
		Short: "Replay a dead letter with another text",
		Long: `Replay a dead letter with another text: as a new message of the same sender, with an id of its own.
Only the text changes: attached files stay. "corebot why" shows that one came of the other. The dead
letter itself ends as dropped.`,
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
	filledFlag(cmd.Flags(), &newID, "id", "the new message's id (default: a new one)")
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
				return s.wouldChange(cmd, filter, "drop", 0)
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

// wouldChange lists what a change of many would do.
func (s *shell) wouldChange(cmd *cobra.Command, f corebot.DeadLetterFilter, change string, rate float64) error {
	n, err := s.listDeadLetters(cmd, f, 0, "", false)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("would %s %s", change, count(int64(n), "dead letter"))
	if rate > 0 {
		lasts := time.Duration(min(float64(n)/rate, 1e9) * float64(time.Second))
		text += fmt.Sprintf(", in about %v", lasts.Round(time.Second))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
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
	case corebot.HintOf(err) != "":
		return err
	case errors.Is(err, corebot.ErrNotFound):
		return corebot.WithHint(err, "`corebot dlq list` shows the ids; one that is not there was replayed or dropped")
	case errors.Is(err, corebot.ErrLaneFull), errors.Is(err, corebot.ErrOverloaded):
		return corebot.WithHint(err, "it is still a dead letter; replay it when the queue is shorter")
	case errors.Is(err, corebot.ErrDiskFull):
		return corebot.WithHint(err, "it is still a dead letter; make room on the disk and replay it")
	}
	return err
}
