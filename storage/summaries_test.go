package storage

import (
	"fmt"
	"testing"
	"time"
)

func TestASummaryOfASessionThatIsOverGoesWithItsHistory(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old := time.Now().Add(-2 * day)
	chronicle(t, dir, 1, 1, 10, old)
	chronicle(t, dir, 1, 2, 10, time.Now()) // its first session is over
	chronicle(t, dir, 2, 1, 600, old)       // its session is in play, though parts of it are old
	chronicle(t, dir, 2, 1, 1, time.Now())  // it is in use
	chronicle(t, dir, 3, 1, 10, old)        // nothing was said here for long
	for chat := 1; chat <= 3; chat++ {
		sideQuery(t, dir,
			`INSERT INTO summaries (chat_id, session, through, text, model, at) VALUES (?, 1, 5, 'x', '', 0)`, chat)
	}
	must(t, keeping(t, db, RetentionOptions{History: day}).Sweep(t.Context()))
	if got := fmt.Sprint(sideQuery(t, dir, `SELECT chat_id FROM summaries`)); got != "[2]" {
		t.Errorf("left are the summaries of %s", got)
	}
	if got := remaining(t, dir, 2); got != "[1|500]" {
		t.Errorf("of the second chat are left %s: nothing was swept", got)
	}
}
