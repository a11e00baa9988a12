package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

func newStatus(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print how Corebot is doing, what waits, runs and died",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			accounting, err := s.accounting()
			if err != nil {
				return err
			}
			status, err := look(s, cmd, operate.ReadStatus, struct{}{})
			if err != nil {
				return err
			}
			now := statusNow{Status: status}
			ctx, stop := context.WithTimeout(cmd.Context(), healthPatience)
			defer stop()
			if h, err := s.health(ctx); err == nil {
				now.Health = &h
			}
			if asJSON {
				return printJSON(cmd, now)
			}
			return printStatus(cmd, accounting, now)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// healthPatience is how long a command waits for a Corebot to say how it is doing.
const healthPatience = 5 * time.Second

// statusNow is what the database has, and how the Corebot is doing that runs on it.
type statusNow struct {
	operate.Status
	Health *operate.Health `json:"health,omitempty"` // nil: none runs, or it does not answer
}

func printRunning(t *teller, h *operate.Health) {
	switch {
	case h == nil:
		t.line("corebot       does not run, or does not answer  (corebot health)")
		return
	case len(h.Stuck) > 0:
		t.line("corebot       stands still: %s  (corebot health)", printable(strings.Join(h.Stuck, ", ")))
	case len(h.NotReady) == 0:
		t.line("corebot       runs")
	}
	for _, line := range h.NotReady {
		t.line("not ready     %s", printable(line))
	}
	for _, line := range h.Degraded {
		t.line("degraded      %s", printable(line))
	}
}

// describeAside says what cannot be read, and what lets the chat go on.
func describeAside(a operate.SetAside) string {
	again := a.Until.Local().Format(time.TimeOnly)
	if a.Life != 0 {
		return fmt.Sprintf("deferred message %d of %s cannot be read; it is tried again at %s  (corebot db check)",
			a.Life, a.Chat, again)
	}
	return fmt.Sprintf("the next message of %s (%s) cannot be read; it is tried again at %s  (corebot db check; "+
		"corebot dlq give-up %d)", a.Chat, a.Pool, again, a.Lane)
}

func printStatus(cmd *cobra.Command, a corebot.Accounting, s statusNow) error {
	t := &teller{w: cmd.OutOrStdout()}
	printRunning(t, s.Health)
	t.line("chats         %d", s.Chats)
	if len(s.Queue) == 0 {
		t.line("queue         empty")
	}
	for _, pool := range slices.Sorted(maps.Keys(s.Queue)) {
		q := s.Queue[pool]
		t.line("%-13s %s in %s: %d running, %d waiting", pool, count(q.Messages, "message"), count(q.Lanes, "chat"),
			q.Running, q.Waiting)
	}
	if !s.OldestUnanswered.IsZero() {
		t.line("oldest        accepted %s ago", time.Since(s.OldestUnanswered).Round(time.Second))
	}
	if s.ApprovalsWaiting > 0 {
		t.line("approvals     %s awaited  (corebot approvals list)", count(s.ApprovalsWaiting, "approval"))
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Deferred)) {
		t.line("deferred      %s for the %s  (corebot deferred list)", count(s.Deferred[reason], "message"), reason)
	}
	for _, a := range s.SetAside {
		t.line("set aside     %s", describeAside(a))
	}
	for _, figure := range slices.Sorted(maps.Keys(s.Unread)) {
		t.line("unreadable    %s: %s  (corebot db check)", figure, s.Unread[figure])
	}
	t.line("used today    %s in %s", a.Describe(s.UsageToday.UsageTotals), count(s.UsageToday.Turns, "turn"))
	dead := fmt.Sprintf("%d inbound, %d outbound", s.DeadLetters["inbound"], s.DeadLetters["outbound"])
	if s.DeadLetters["inbound"]+s.DeadLetters["outbound"] > 0 {
		dead += "  (corebot dlq list)"
	}
	t.line("dead letters  %s", dead)
	return t.err
}

func newHealth(s *shell) *cobra.Command {
	var asJSON, ready bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Exit with 0 if the running Corebot lives, for supervisors such as container engines",
		Long: `Ask the running Corebot how it is doing, through the control socket of its home. The exit code is 1
if none runs, if it does not answer in time, or if a part of it stands still: then a new start helps.
With --ready it is also 1 while messages cannot be accepted or answered, such as on a full disk.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usage(cmd, errors.New("--timeout is a time over 0s"))
			}
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			h, err := s.health(ctx)
			switch {
			case err != nil && ctx.Err() != nil && cmd.Context().Err() == nil:
				return corebot.WithHint(fmt.Errorf("no answer of Corebot within %v", timeout), restartHint)
			case err != nil:
				return err
			case asJSON:
				err = printJSON(cmd, h)
			default:
				err = printHealth(cmd, h)
			}
			return errors.Join(err, judge(h, ready))
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "fail also while messages cannot be accepted or answered")
	cmd.Flags().DurationVar(&timeout, "timeout", healthPatience, "how long to wait for the answer")
	jsonFlag(cmd, &asJSON)
	return cmd
}

const restartHint = "a restart loses nothing: messages go on where they were"

func (s *shell) health(ctx context.Context) (operate.Health, error) {
	daemon, err := s.daemon(ctx, "start it with `corebot serve`")
	if err != nil {
		return operate.Health{}, err
	}
	return operate.ReadHealth.Call(ctx, daemon, struct{}{})
}

func printHealth(cmd *cobra.Command, h operate.Health) error {
	t := &teller{w: cmd.OutOrStdout()}
	if len(h.NotReady) == 0 {
		t.line("ready")
	}
	for _, line := range h.NotReady {
		t.line("not ready: %s", printable(line))
	}
	for _, line := range h.Degraded {
		t.line("degraded: %s", printable(line))
	}
	return t.err
}

// judge turns what is wrong into the exit code. Only a part that stands still is worth a restart: a full disk stays as
// full.
func judge(h operate.Health, ready bool) error {
	switch {
	case len(h.Stuck) > 0:
		return corebot.WithHint(fmt.Errorf("these parts of Corebot stand still: %s",
			printable(strings.Join(h.Stuck, ", "))), restartHint)
	case ready && len(h.NotReady) > 0:
		return errors.New("messages cannot be accepted or answered now")
	}
	return nil
}
