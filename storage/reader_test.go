package storage

import (
	"errors"
	"testing"
)

func TestAViewIsOfOneMoment(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	count := &query{`SELECT COUNT(*) FROM message_queue`}
	for _, want := range []int{1, 2} { // the second view is of another moment
		err := db.reader.view(t.Context(), func(c *prepared) error {
			for range 2 {
				var n int
				if err := c.each(count, func(s scanner) error { return s.Scan(&n) }); err != nil {
					return err
				}
				if n != want {
					t.Errorf("a view shows %d messages, want %d", n, want)
				}
				if want == 1 {
					publishTest(t, db, "a", "2")
				}
			}
			return nil
		})
		must(t, err)
	}
}

func TestAViewThatFailsOrPanicsHoldsNothing(t *testing.T) {
	db := openTest(t, t.TempDir())
	failed := errors.New("failed")
	if err := db.reader.view(t.Context(), func(*prepared) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.reader.view(t.Context(), func(*prepared) error { panic("out") })
	}()
	for _, c := range db.reader.idle {
		if c.db.InTransaction() {
			t.Error("a connection that is free is in a transaction")
		}
	}
	if n := len(db.reader.slots); n != 0 {
		t.Errorf("%d connections are lent", n)
	}
}

func TestAConnectionWhoseViewCannotBeEndedIsGivenUp(t *testing.T) {
	db := openTest(t, t.TempDir())
	stuck := errors.New("stuck")
	err := db.reader.view(t.Context(), func(c *prepared) error {
		c.trouble = func(sql string, after bool) error {
			if sql == endRead.sql && !after {
				return stuck
			}
			return nil
		}
		return nil
	})
	if !errors.Is(err, stuck) || len(db.reader.idle) != 0 {
		t.Errorf("the error is %v, and %d connections are kept", err, len(db.reader.idle))
	}
	must(t, db.reader.view(t.Context(), func(*prepared) error { return nil }))
}
