package storage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestPagesOfDeadLettersHaveEachOnceAlsoOfOneMoment(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	var want []string
	for i := range 7 {
		deadReply(t, db, "one", fmt.Sprintf("m%d", i))
	}
	// All letters died in the same millisecond, as the letters of one commit do.
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(&query{`UPDATE message_life SET ended_at = ?`}, time.Now().Add(-time.Minute))
		return err
	}))
	all, err := letters.List(t.Context(), corebot.DeadLetterFilter{})
	must(t, err)
	for _, l := range all {
		want = append(want, l.MessageID)
	}
	var got []string
	after := ""
	for pages := 0; pages == 0 || after != ""; pages++ {
		page, next, err := letters.Page(t.Context(), corebot.DeadLetterFilter{}, after, 3)
		must(t, err)
		for _, l := range page {
			got = append(got, l.MessageID)
		}
		if pages == 0 {
			deadReply(t, db, "one", "later") // in front of the first page
		}
		after = next
	}
	if len(want) != 7 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pages have %v, the list %v", got, want)
	}
}

func TestACursorOfAnotherListIsRefused(t *testing.T) {
	db := openTest(t, t.TempDir())
	for _, after := range []string{"x", "3", cursor("dead", 1), cursor("dead", "1", "2"), cursor("other", 1, 2), cursor("dead", 1, 2)[1:]} {
		if _, _, err := NewDeadLetters(db).Page(t.Context(), corebot.DeadLetterFilter{}, after, 3); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("the cursor %q: %v", after, err)
		}
	}
}
