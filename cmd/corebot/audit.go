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

// auditFilter are the flags that say which events are meant.
type auditFilter struct {
	corebot.AuditFilter
	outcome, after, before string
	since                  time.Duration
}

func (f *auditFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Tool, "tool", "", "of this tool only")
	flags.StringVar(&f.Channel, "channel", "", "of this channel only")
	flags.StringVar(&f.Chat, "chat", "", chatFlagHelp)
	flags.StringVar(&f.Sender, "sender", "", "of this sender only")
	flags.StringVar(&f.outcome, "outcome", "", "success, denied, error, invalid_args or unknown; approval.request has none, since nothing has run")
	flags.BoolVar(&f.Decisions, "decisions", false, "also show the decisions that were written before calls ran")
	flags.DurationVar(&f.since, "since", 0, "of the last time, such as 24h")
	flags.StringVar(&f.after, "after", "", "at this moment or later: 2006-01-02, or 2006-01-02T15:04:05Z")
	flags.StringVar(&f.before, "before", "", "before this moment")
	limitFlag(cmd, &f.Limit, 100, "at most this many, the newest")
}

// parse reads the flags that are no plain text.
func (f *auditFilter) parse(s *shell, cmd *cobra.Command) (out corebot.AuditFilter, err error) {
	out = f.AuditFilter
	if out.Key, out.Chat, err = s.chatFilter(cmd, f.Channel, f.Chat); err != nil {
		return out, err
	}
	if out.Since, err = moment(cmd, "after", f.after, "since", f.since); err != nil {
		return out, err
	}
	if out.Until, err = moment(cmd, "before", f.before, "", 0); err != nil {
		return out, err
	}
	out.Outcome, err = parseOutcome(cmd, f.outcome)
	return out, err
}

func newAudit(s *shell) *cobra.Command {
	var asJSON bool
	var f auditFilter
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List tool calls: who asked for what, what decided, how it ended",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			events, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.AuditEvent, error) {
				return storage.NewAudit(db).List(ctx, filter)
			})
			if err != nil {
				return err
			}
			return printAudit(cmd, events, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	cmd.AddCommand(newAuditVerify(s))
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
				e.At, e.Event, e.Tool, e.Key.Channel, e.Key.Chat, e.Principal.ID, string(e.Role), string(e.Entry), string(e.Outcome), e.Rule,
				redact.Shallow(json.RawMessage(cmp.Or(e.Args, "{}"))), e.Duration.Milliseconds(),
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
