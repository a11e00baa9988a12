package main

import (
	"errors"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/operate"
)

// listing is how a command prints the rows of a list.
type listing[T any] struct {
	header string         // the names of the columns, with tabs between them
	cells  func(T) string // of a row, with tabs between them
	none   string         // what an empty list says to people; empty: nothing
	json   func(T) any    // what --json prints of a row; nil: the row itself
}

// print prints a list page by page, at most limit rows of it, and says how many it printed; limit 0 means all. A list of
// any length takes no more memory than a page. The columns of a page stand in line.
func (l listing[T]) print(cmd *cobra.Command, asJSON bool, limit int, page func(operate.Part) (operate.Page[T], error)) (printed int, err error) {
	for part := (operate.Part{}); ; {
		if limit > 0 {
			part.Limit = limit - printed
		}
		found, err := page(part)
		if err != nil {
			return printed, err
		}
		if err := l.page(cmd, found.Rows, printed == 0, asJSON); err != nil {
			return printed, err
		}
		printed += len(found.Rows)
		if part.After = found.Next; part.After == "" || printed == limit {
			return printed, nil
		}
	}
}

func (l listing[T]) page(cmd *cobra.Command, rows []T, first, asJSON bool) error {
	if asJSON {
		for _, row := range rows {
			if err := printJSON(cmd, l.asJSON(row)); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	switch {
	case len(rows) > 0 && first:
		t.line("%s", l.header)
	case first && l.none != "":
		t.line("%s", l.none)
	}
	for _, row := range rows {
		t.line("%s", l.cells(row))
	}
	return errors.Join(t.err, table.Flush())
}

func (l listing[T]) asJSON(row T) any {
	if l.json == nil {
		return row
	}
	return l.json(row)
}
