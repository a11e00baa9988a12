package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// auditFilter are the flags that say which events are meant.
type auditFilter struct {
	corebot.AuditFilter
	outcome, after, before string
	since                  time.Duration
}

func (f *auditFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Tool, "tool", "",
		"of this tool or this change only, such as fs.read, facts.forget or 'tokens add'")
	flags.StringVar(&f.Agent, "agent", "", "of this agent's chats only")
	flags.StringVar(&f.Channel, "channel", "", "of this channel only")
	flags.StringVar(&f.Chat, "chat", "", chatFlagHelp)
	flags.StringVar(&f.Sender, "sender", "", "of this sender only")
	flags.StringVar(&f.outcome, "outcome", "",
		"success, denied, error, invalid_args or unknown; approval.request has none, since nothing has run")
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
	if out.Since, err = operate.Moment("after", f.after, "since", f.since, time.Now()); err != nil {
		return out, usage(cmd, err)
	}
	if out.Until, err = operate.Moment("before", f.before, "", 0, time.Now()); err != nil {
		return out, usage(cmd, err)
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
			_, err = auditTable.print(cmd, asJSON, f.Limit,
				func(p operate.Part) (operate.Page[operate.AuditEvent], error) {
					return look(s, cmd, operate.ListAudit, operate.AuditQuery{Filter: filter, Part: p})
				})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	cmd.AddCommand(newAuditVerify(s), newAuditExport(s), newAuditKey(s))
	return cmd
}

func parseOutcome(cmd *cobra.Command, s string) (corebot.AuditOutcome, error) {
	switch o := corebot.AuditOutcome(s); o {
	case "", corebot.OutcomeSuccess, corebot.OutcomeDenied, corebot.OutcomeError, corebot.OutcomeInvalidArgs,
		corebot.OutcomeUnknown:
		return o, nil
	}
	return "", usage(cmd, fmt.Errorf("--outcome %q: want success, denied, error, invalid_args or unknown", s))
}

var auditTable = listing[operate.AuditEvent]{
	header: "AT\tEVENT\tTOOL\tWHO\tROLE\tOUTCOME\tRULE\tARGS",
	none:   "no tool calls",
	json:   func(e operate.AuditEvent) any { return e.AuditRow },
	cells: func(e operate.AuditEvent) string {
		args := string(e.Args)
		if e.NoArgs {
			args = ""
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", e.At.Local().Format(time.DateTime), e.Event,
			oneLine(e.Tool, 40),
			oneLine(e.Principal, 40), e.Role, e.Outcome, e.Rule, oneLine(args, 80))
	},
}
