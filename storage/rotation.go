package storage

import (
	"context"
	"math/rand/v2"
	"time"
)

// rotation looks at a table whose rows are in no order of time, a part of it in each pass: where one pass ends the
// next goes on, and all rows are seen within a day. The first pass begins anywhere, so that a process that is started
// often does not see the same rows again and again.
type rotation struct {
	begun bool
	next  int64 // the id behind which the next pass begins
}

const (
	wholeTurn = 24 * time.Hour // in which each row is looked at once
	leastTurn = 5 * sweepRows  // rows of a pass: a small table is seen whole by each
)

// pass hands over the pages of one pass. page reads the rows behind an id, [sweepRows] of them at most, and says how
// many there were and the id of the last. newest gives the highest id of the table, which stands for its size.
func (o *rotation) pass(ctx context.Context, r *Retention, newest *query, page func(after int64) (rows int, last int64, err error)) error {
	var ids int64
	if _, err := r.db.reader.one(ctx, newest, []any{&ids}); err != nil {
		return err
	}
	if !o.begun && ids > leastTurn {
		o.next = rand.Int64N(ids)
	}
	o.begun = true
	share := max(leastTurn, int(float64(ids)*r.opts.Every.Hours()/wholeTurn.Hours())+1)
	begin, wrapped := o.next, o.next == 0
	for seen := 0; seen < share; {
		rows, last, err := page(o.next)
		if err != nil {
			return err
		}
		seen += rows
		o.next = last
		if rows < sweepRows { // the end of the table
			if o.next = 0; wrapped {
				return nil
			}
			wrapped = true
		} else if wrapped && begin > 0 && o.next >= begin {
			return nil
		}
	}
	return nil
}
