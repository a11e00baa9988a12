package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// deadLetter publishes a message and gives it up.
func deadLetter(t *testing.T, db *DB, chat, id, reason string) int64 {
	t.Helper()
	q := NewQueue(db)
	m := corebot.Message{
		ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Parts: corebot.TextPart("text of " + id),
		Key:    corebot.Key{Agent: "main", Channel: "test", Chat: chat},
		Sender: corebot.Principal{Channel: "test", ID: "u"},
	}
	if _, err := q.Publish(t.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
		t.Fatal(err)
	}
	ds, err := q.Claim(t.Context(), corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	if err := q.Settle(t.Context(), ds[0], corebot.Outcome{
		Verb: corebot.Dead, Reason: reason,
		Error: "it failed",
	}); err != nil {
		t.Fatal(err)
	}
	return ds[0].Life
}

func TestDeadLettersAreFilteredAndPurged(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	deadLetter(t, db, "one", "a", "poison")
	deadLetter(t, db, "one", "b", "attempts")
	deadLetter(t, db, "two", "c", "attempts")
	for _, c := range []struct {
		filter corebot.DeadLetterFilter
		want   int
	}{
		{corebot.DeadLetterFilter{}, 3},
		{corebot.DeadLetterFilter{Limit: 2}, 2},
		{corebot.DeadLetterFilter{Chat: "one"}, 2},
		{corebot.DeadLetterFilter{Reason: "attempts"}, 2},
		{corebot.DeadLetterFilter{Channel: "other"}, 0},
		{corebot.DeadLetterFilter{Direction: corebot.Outbound}, 0},
		{corebot.DeadLetterFilter{Before: time.Now().Add(-time.Hour)}, 0},
		{corebot.DeadLetterFilter{Before: time.Now().Add(time.Hour)}, 3},
		{corebot.DeadLetterFilter{After: time.Now().Add(-time.Hour)}, 3},
		{corebot.DeadLetterFilter{After: time.Now().Add(time.Hour)}, 0},
		{corebot.DeadLetterFilter{Sender: "u", Chat: "two"}, 1},
		{corebot.DeadLetterFilter{Sender: "v"}, 0},
	} {
		got, err := letters.List(t.Context(), c.filter)
		if err != nil || len(got) != c.want {
			t.Errorf("%+v lists %d, want %d: %v", c.filter, len(got), c.want, err)
		}
	}
	if n, err := letters.Purge(t.Context(), corebot.DeadLetterFilter{Reason: "attempts"}); n != 2 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
	if left, err := letters.List(t.Context(), corebot.DeadLetterFilter{}); err != nil || len(left) != 1 ||
		left[0].MessageID != "a" {
		t.Errorf("left over: %+v %v", left, err)
	}
	healthy(t, db)
}

func TestADroppedLetterIsGoneAndItsLifeStays(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "one", "a", "poison")
	if err := letters.Drop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]error{
		"drop":   letters.Drop(t.Context(), id),
		"replay": letters.Replay(t.Context(), id, false),
	} {
		if !errors.Is(again, corebot.ErrNotFound) {
			t.Errorf("%s of a dropped letter: %v", name, again)
		}
	}
	life, err := NewLives(db).Get(t.Context(), id)
	if err != nil || life.End != corebot.EndDropped || life.Message != nil {
		t.Errorf("the life is %+v: %v", life, err)
	}
	healthy(t, db)
}

func TestAnEditedLetterIsANewMessageOfTheSameSender(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "one", "a", "poison")
	if err := letters.Edit(t.Context(), id, "a", "text"); !errors.Is(err, corebot.ErrConflict) {
		t.Errorf("an edit under the old id: %v", err)
	}
	if err := letters.Edit(t.Context(), id, "a-2", " "); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("an edit to nothing: %v", err)
	}
	if err := letters.Edit(t.Context(), id, "a-2", "better"); err != nil {
		t.Fatal(err)
	}
	ds, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
	if err != nil || ds[0].Message.ID != "a-2" || ds[0].Message.Text() != "better" || ds[0].Message.Sender.ID != "u" ||
		ds[0].Run != 1 {
		t.Errorf("delivered %+v: %v", ds, err)
	}
	old, err := NewLives(db).Get(t.Context(), id)
	if err != nil || old.End != corebot.EndDropped || old.Reason != "edited" || len(old.Replies) != 1 ||
		old.Replies[0].MessageID != "a-2" {
		t.Errorf("the old life is %+v: %v", old, err)
	}
	healthy(t, db)
}

func TestAnAdminWhoCanNeverSpeakIsNotTheLastOne(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(),
		Options{Speaks: func(p corebot.Principal) bool { return p.Channel == "cli" }})
	must(t, err)
	runTest(t, db)
	grants := NewGrants(db)
	person, nobody := corebot.Principal{Channel: "cli", ID: "1"}, corebot.Principal{Channel: "clii", ID: "1"}
	makeAdmin := func(p corebot.Principal) {
		must(t, grants.Grant(t.Context(), corebot.Grant{Principal: p, Role: corebot.RoleAdmin}))
	}
	makeAdmin(nobody)
	if err := grants.Revoke(t.Context(), nobody, corebot.Key{}); err != nil {
		t.Errorf("a grant that is nobody's: %v", err)
	}
	makeAdmin(nobody)
	makeAdmin(person)
	if err := grants.Revoke(t.Context(), person, corebot.Key{}); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the last admin who can speak: %v", err)
	}
	if err := grants.Grant(t.Context(), corebot.Grant{Principal: nobody, Role: corebot.RoleNormal}); err != nil {
		t.Errorf("a grant that is nobody's, to normal: %v", err)
	}
}

func healthy(t *testing.T, db *DB) {
	t.Helper()
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("the database has problems: %q %v", problems, err)
	}
}
