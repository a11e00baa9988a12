package main

import (
	"context"
	"errors"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func newUsage(s *shell) *cobra.Command {
	var asJSON bool
	var days, limit int
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Print what models used, by day, chat, sender and model",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			accounting, err := s.accounting()
			if err != nil {
				return err
			}
			now := time.Now()
			first, last := accounting.Day(now.AddDate(0, 0, 1-days)), accounting.Day(now)
			rows, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.UseRow, error) {
				return storage.NewBooks(db).Days(ctx, first, last, limit)
			})
			if err != nil {
				return err
			}
			return printUse(cmd, accounting, rows, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	numberFlag(cmd, &days, "days", 1, "so many days, today included")
	limitFlag(cmd, &limit, 1000, "at most this many rows, the newest days first")
	return cmd
}

// accounting is how this home books usage.
func (s *shell) accounting() (corebot.Accounting, error) {
	c, err := s.settings()
	if err != nil {
		return corebot.Accounting{}, err
	}
	return c.Accounting()
}

func printUse(cmd *cobra.Command, a corebot.Accounting, rows []corebot.UseRow, asJSON bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	if !asJSON && len(rows) > 0 {
		t.line("DAY\tCHAT\tSENDER\tMODEL\tTURNS\tUSED")
	}
	var all corebot.Use
	for _, row := range rows {
		if asJSON {
			if err := printJSON(cmd, row); err != nil {
				return err
			}
			continue
		}
		all = all.Add(row.Use)
		t.line("%s\t%s\t%s\t%s\t%d\t%s", row.Day, row.Chat, oneLine(row.Principal.ID, 30), oneLine(row.Model, 40), row.Turns, a.Describe(row.Use))
	}
	switch {
	case asJSON:
	case len(rows) == 0:
		t.line("nothing was used")
	default:
		t.line("\t\t\t\t%d\t%s", all.Turns, a.Describe(all))
	}
	return errors.Join(t.err, table.Flush())
}
