package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func newAudit(s *shell) *cobra.Command {
	var asJSON bool
	var f storage.AuditFilter
	var outcome string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List tool calls: who asked for what, what decided, how it ended",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.Limit < 1 {
				return usage(cmd, fmt.Errorf("--limit %d: want at least 1", f.Limit))
			}
			if f.Outcome, err = parseOutcome(cmd, outcome); err != nil {
				return err
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			events, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.AuditEvent, error) {
				return storage.NewAudit(db).List(ctx, f)
			})
			if err != nil {
				return err
			}
			return printAudit(cmd, events, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&f.Tool, "tool", "", "of this tool only")
	cmd.Flags().StringVar(&f.Channel, "channel", "", "of this channel only")
	cmd.Flags().StringVar(&f.Chat, "chat", "", "of this chat only: its id in the channel")
	cmd.Flags().StringVar(&f.Sender, "sender", "", "of this sender only")
	cmd.Flags().StringVar(&outcome, "outcome", "", "success, denied, error, invalid_args or unknown")
	cmd.Flags().BoolVar(&f.Decisions, "decisions", false, "also show the decisions that were written before calls ran")
	cmd.Flags().DurationVar(&since, "since", 0, "of the last time, such as 24h")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "at most this many, the newest")
	return cmd
}

func parseOutcome(cmd *cobra.Command, s string) (corebot.AuditOutcome, error) {
	switch o := corebot.AuditOutcome(s); o {
	case "", corebot.OutcomeSuccess, corebot.OutcomeDenied, corebot.OutcomeError, corebot.OutcomeInvalidArgs, corebot.OutcomeUnknown:
		return o, nil
	}
	return "", usage(cmd, fmt.Errorf("--outcome %q: want success, denied, error, invalid_args or unknown", s))
}

// auditRow is the contract's JSON of one event.
type auditRow struct {
	At         time.Time       `json:"at"`
	Event      string          `json:"event"`
	Tool       string          `json:"tool"`
	Channel    string          `json:"channel"`
	ChatID     string          `json:"chatId"`
	SenderID   string          `json:"senderId"`
	Role       string          `json:"role"`
	Entry      string          `json:"entry"`
	Outcome    string          `json:"outcome"`
	Rule       string          `json:"rule"`
	Args       json.RawMessage `json:"args"`
	DurationMS int64           `json:"durationMs"`
}

func printAudit(cmd *cobra.Command, events []corebot.AuditEvent, asJSON bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	if !asJSON && len(events) > 0 {
		t.line("AT\tEVENT\tTOOL\tWHO\tROLE\tOUTCOME\tRULE\tARGS")
	}
	for _, e := range events {
		if asJSON {
			row := auditRow{
				e.At, e.Event, e.Tool, e.Key.Channel, e.Key.Chat, e.Principal.ID, string(e.Role), e.Entry, string(e.Outcome), e.Rule,
				json.RawMessage(e.Args), e.Duration.Milliseconds(),
			}
			if err := printJSON(cmd, row); err != nil {
				return err
			}
			continue
		}
		t.line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", e.At.Local().Format(time.DateTime), e.Event, oneLine(e.Tool, 40), oneLine(e.Principal.String(), 40),
			e.Role, e.Outcome, e.Rule, oneLine(e.Args, 80))
	}
	if len(events) == 0 && !asJSON {
		t.line("no tool calls")
	}
	return errors.Join(t.err, table.Flush())
}
