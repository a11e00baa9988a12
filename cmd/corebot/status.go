package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

func newStatus(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print what waits, runs and died",
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
			if asJSON {
				return printJSON(cmd, status)
			}
			return printStatus(cmd, accounting, status)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
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

func printStatus(cmd *cobra.Command, a corebot.Accounting, s operate.Status) error {
	t := &teller{w: cmd.OutOrStdout()}
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
	t.line("used today    %s in %s", a.Describe(s.UsageToday.Use), count(s.UsageToday.Turns, "turn"))
	dead := fmt.Sprintf("%d inbound, %d outbound", s.DeadLetters["inbound"], s.DeadLetters["outbound"])
	if s.DeadLetters["inbound"]+s.DeadLetters["outbound"] > 0 {
		dead += "  (corebot dlq list)"
	}
	t.line("dead letters  %s", dead)
	return t.err
}
