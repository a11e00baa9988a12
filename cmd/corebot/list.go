package main

import (
	"errors"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/operate"
)

// eachPage hands a list to show page by page, at most limit rows of it, and says how many rows there were; limit 0 means
// all. An empty list is one empty page. A list of any length takes no more memory than a page.
func eachPage[T any](limit int, page func(operate.Part) (operate.Page[T], error), show func(rows []T, first, last bool) error) (shown int, err error) {
	for part := (operate.Part{}); ; {
		if limit > 0 {
			part.Limit = limit - shown
		}
		found, err := page(part)
		if err != nil {
			return shown, err
		}
		first, n := shown == 0, shown+len(found.Rows)
		last := found.Next == "" || n == limit
		if err := show(found.Rows, first, last); err != nil || last {
			return n, err
		}
		shown, part.After = n, found.Next
	}
}

// listing is how a command prints the rows of a list.
type listing[T any] struct {
	header string         // the names of the columns, with tabs between them
	cells  func(T) string // of a row, with tabs between them
	none   string         // what an empty list says to people; empty: nothing
	foot   func() string  // the last line of a list that is not empty; nil: none
	json   func(T) any    // what --json prints of a row; nil: the row itself
}

// print prints at most limit rows of a list as [eachPage] gives them, and says how many. The columns of a page stand in line.
func (l listing[T]) print(cmd *cobra.Command, asJSON bool, limit int, page func(operate.Part) (operate.Page[T], error)) (int, error) {
	return eachPage(limit, page, func(rows []T, first, last bool) error {
		if asJSON {
			return l.lines(cmd, rows)
		}
		return l.table(cmd, rows, first, last)
	})
}

func (l listing[T]) lines(cmd *cobra.Command, rows []T) error {
	for _, row := range rows {
		var line any = row
		if l.json != nil {
			line = l.json(row)
		}
		if err := printJSON(cmd, line); err != nil {
			return err
		}
	}
	return nil
}

func (l listing[T]) table(cmd *cobra.Command, rows []T, first, last bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	empty := first && len(rows) == 0
	switch {
	case empty && l.none != "":
		t.line("%s", l.none)
	case first && !empty:
		t.line("%s", l.header)
	}
	for _, row := range rows {
		t.line("%s", l.cells(row))
	}
	if last && !empty && l.foot != nil {
		t.line("%s", l.foot())
	}
	return errors.Join(t.err, table.Flush())
}
