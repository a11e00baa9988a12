package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func keyedChange(token int64, key, call string) corebot.KeyedChange {
	return corebot.KeyedChange{Token: token, Key: digestOf(fmt.Sprint(token, key)), Call: digestOf(call)}
}

func TestTheKeyOfAChangeIsInItsCommit(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, _ *Console) {
		all, k := NewTokens(db), keyedChange(1, "k", "call")
		wrong := errors.New("wrong")
		ctx := all.Keyed(t.Context(), k)
		if err := db.write(ctx, "test", func(*tx) error { return wrong }); !errors.Is(err, wrong) {
			t.Fatal(err)
		}
		if _, err := all.Made(t.Context(), k); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("of a change that failed: %v", err)
		}
		for range 2 { // a change can take two commits
			must(t, db.write(ctx, "test", func(*tx) error { return nil }))
		}
		if _, err := all.Made(t.Context(), k); !errors.Is(err, corebot.ErrConflict) || corebot.HintOf(err) == "" {
			t.Errorf("of a change whose answer was lost: %v", err)
		}
		if _, err := all.Made(t.Context(), keyedChange(1, "k", "other")); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("of another change: %v", err)
		}
		if _, err := all.Made(t.Context(), keyedChange(2, "k", "call")); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("of another token: %v", err)
		}
		must(t, all.Keep(t.Context(), k, corebot.KeptAnswer{Status: 200, Body: []byte("done")}))
		if a, err := all.Made(t.Context(), k); err != nil || a.Status != 200 || string(a.Body) != "done" {
			t.Errorf("the answer is %+v: %v", a, err)
		}
		large := keyedChange(1, "large", "call")
		tooLarge := corebot.KeptAnswer{Body: make([]byte, corebot.MaxKeptAnswer+1), Status: 200}
		must(t, all.Keep(t.Context(), large, tooLarge))
		if _, err := all.Made(t.Context(), large); !errors.Is(err, corebot.ErrConflict) {
			t.Errorf("of a change with a large answer: %v", err)
		}
		time.Sleep(keyedTime)
		if _, err := all.Made(t.Context(), k); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("after a day: %v", err)
		}
		must(t, db.write(ctx, "test", func(*tx) error { return nil }))
		if _, err := all.Made(t.Context(), k); !errors.Is(err, corebot.ErrConflict) {
			t.Errorf("used again after a day: %v", err)
		}
		if n := count(t, db.path, "api_keys"); n != 1 {
			t.Errorf("%d keys are kept", n)
		}
	})
}

func TestTheKeysOfATokenAreBounded(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, _ *Console) {
		all := NewTokens(db)
		change := func(token int64, key int) error {
			ctx := all.Keyed(context.WithoutCancel(t.Context()), keyedChange(token, fmt.Sprint(key), ""))
			return db.write(ctx, "test", func(*tx) error { return nil })
		}
		for i := range corebot.MaxKeyedChanges {
			must(t, change(1, i))
		}
		if err := change(1, -1); !errors.Is(err, corebot.ErrOverloaded) || corebot.HintOf(err) == "" {
			t.Errorf("one more: %v", err)
		}
		must(t, change(1, corebot.MaxKeyedChanges-1)) // the second commit of the newest change
		stored := all.Keep(t.Context(), keyedChange(1, "more", ""), corebot.KeptAnswer{Status: 200})
		if !errors.Is(stored, corebot.ErrOverloaded) {
			t.Errorf("one more, of a change that stores nothing: %v", stored)
		}
		must(t, change(2, 0))
		time.Sleep(keyedTime)
		must(t, change(1, -1))
	})
}

// A program that uses no keys any more leaves nothing for longer than its key holds.
func TestKeysAndAnswersGoAfterADayWithoutAnotherChange(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, _ *Console) {
		k := keyedChange(1, "k", "call")
		must(t, NewTokens(db).Keep(t.Context(), k, corebot.KeptAnswer{Status: 200, Body: []byte("water the plants")}))
		r, err := NewRetention(db, RetentionOptions{})
		must(t, err)
		for _, left := range []int{1, 0} {
			must(t, r.Sweep(t.Context()))
			if n := count(t, db.path, "api_keys"); n != left {
				t.Errorf("%d keys are kept, want %d", n, left)
			}
			time.Sleep(keyedTime)
		}
	})
}

func TestADeletedChatTakesTheAnswersOfChangesAndLeavesTheirKeys(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, _ *Console) {
		all, k := NewTokens(db), keyedChange(1, "k", "call")
		must(t, all.Keep(t.Context(), k, corebot.KeptAnswer{Status: 200, Body: []byte("water the plants")}))
		publishTest(t, db, "a", "1")
		must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		}))
		_, err := NewForgetting(db).Chat(t.Context(), testMessage("a", "1").Key, nil)
		must(t, err)
		if a, err := all.Made(t.Context(), k); !errors.Is(err, corebot.ErrConflict) || len(a.Body) != 0 {
			t.Errorf("the answer is %s: %v", a.Body, err)
		}
	})
}
