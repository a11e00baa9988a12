package storage

import (
	"context"
	"time"
)

// dropUsage takes days that are over for long enough, the oldest first.
var dropUsage = &query{`DELETE FROM usage_days WHERE (day, key, sender, model) IN
	(SELECT day, key, sender, model FROM usage_days WHERE day < ? ORDER BY day LIMIT ? + 0)`}

// sweepUsage takes the rows of days that ended before a moment.
func (r *Retention) sweepUsage(ctx context.Context, before time.Time) error {
	first := r.db.accounting.Day(before)
	for more := true; more; {
		err := r.drop(ctx, "usage_days", func(t *tx) (gone int64, err error) {
			gone, err = t.exec(dropUsage, first, sweepRows)
			more = gone == sweepRows
			return gone, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
