package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
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
			_, err = useTable(accounting).print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[corebot.UseRow], error) {
				return look(s, cmd, operate.ListUsage, operate.UsageQuery{From: first, To: last, Part: p})
			})
			return err
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

// useTable prints what was used, and the sum of it below.
func useTable(a corebot.Accounting) listing[corebot.UseRow] {
	var all corebot.Use
	return listing[corebot.UseRow]{
		header: "DAY\tCHAT\tSENDER\tMODEL\tTURNS\tUSED",
		none:   "nothing was used",
		cells: func(row corebot.UseRow) string {
			all = all.Add(row.Use)
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", row.Day, row.Chat, oneLine(row.Principal.ID, 30), oneLine(row.Model, 40), row.Turns, a.Describe(row.Use))
		},
		foot: func() string { return fmt.Sprintf("\t\t\t\t%d\t%s", all.Turns, a.Describe(all)) },
	}
}
