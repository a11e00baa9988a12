package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

var errRule = errors.New("a rule is broken")

var touchGrant = &query{
	`INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at)
		VALUES ('test', '', ?, '', 'normal', 'test', 0)`,
}

// busy holds the writer inside an operation until release is called, so that what is submitted meanwhile shares a
// batch.
func busy(db *DB) (release func()) {
	gate := make(chan struct{})
	go func() {
		_ = db.write(context.Background(), "gate", func(*tx) error {
			<-gate
			return nil
		})
	}()
	synctest.Wait()
	return func() { close(gate) }
}

// together submits operations in this order, so that they share a batch, and gives their errors.
func together(db *DB, operations ...func(*tx) error) []error {
	release := busy(db)
	errs := make([]error, len(operations))
	ended := make(chan struct{})
	for i, run := range operations {
		go func() {
			errs[i] = db.write(context.Background(), "test", run)
			ended <- struct{}{}
		}()
		synctest.Wait()
	}
	release()
	for range operations {
		<-ended
	}
	return errs
}

// writing is an operation that writes a row and then ends with err; runs counts how often it ran.
func writing(id string, err error, runs *int) func(*tx) error {
	return func(x *tx) error {
		*runs++
		if _, e := x.exec(touchGrant, id); e != nil {
			return e
		}
		return err
	}
}

func TestAnOperationThatFailsAfterWritingTakesNobodyWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db := openTest(t, dir)
		var a, b, c int
		errs := together(db, writing("a", nil, &a), writing("b", errRule, &b), writing("c", nil, &c))
		if errs[0] != nil || !errors.Is(errs[1], errRule) || errs[2] != nil {
			t.Fatalf("got %v", errs)
		}
		if got := sideQuery(t, dir, `SELECT sender FROM grants ORDER BY sender`); fmt.Sprint(got) != "[a c]" {
			t.Fatalf("stored %v", got)
		}
		if a != 2 || b != 2 || c != 1 {
			t.Fatalf("ran %d, %d, %d times: the batch ends at the failure and each runs alone", a, b, c)
		}
	})
}

func TestAnOperationThatFailsBeforeWritingCostsTheOthersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db := openTest(t, dir)
		var a, b, c int
		before := sideQuery(t, dir, `SELECT batch FROM store`)[0]
		errs := together(db, writing("a", nil, &a), func(*tx) error { b++; return errRule }, writing("c", nil, &c))
		if errs[0] != nil || !errors.Is(errs[1], errRule) || errs[2] != nil || a != 1 || b != 1 || c != 1 {
			t.Fatalf("got %v after %d, %d, %d runs", errs, a, b, c)
		}
		if after := sideQuery(t, dir, `SELECT batch - ? FROM store`, before)[0]; after != "1" {
			t.Fatalf("%s commits, want one for all", after)
		}
	})
}

func TestAConstraintIsAnErrorOfItsOperationAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		var a, b, c int
		errs := together(db, writing("same", nil, &a), writing("same", nil, &b), writing("other", nil, &c))
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Fatalf("got %v", errs)
		}
	})
}

func TestACancelledOperationNeverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db := openTest(t, dir)
		release := busy(db)
		ctx, cancel := context.WithCancelCause(context.Background())
		runs := 0
		ended := make(chan error)
		go func() { ended <- db.write(ctx, "test", writing("a", nil, &runs)) }()
		synctest.Wait()
		cancel(errRule)
		if err := <-ended; !errors.Is(err, errRule) {
			t.Fatalf("got %v", err)
		}
		release()
		synctest.Wait()
		if runs != 0 || count(t, dir, "grants") != 0 {
			t.Fatal("it ran all the same")
		}
	})
}

func TestACancellationComesTooLateOnceTheWriterHasTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db := openTest(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		runs := 0
		must(t, db.write(ctx, "test", func(x *tx) error {
			cancel()
			synctest.Wait()
			return writing("a", nil, &runs)(x)
		}))
		if count(t, dir, "grants") != 1 {
			t.Fatal("the answer was yes and nothing is stored")
		}
	})
}

func TestAStoppedWriterAnswersWhatItHasAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db, err := Open(context.Background(), dir, Options{})
		must(t, err)
		stop := runTest(t, db)
		claimed := make(chan error, 1)
		go func() {
			_, err := NewQueue(db).Claim(context.Background(), corebot.InboundPool, 1,
				corebot.ClaimOptions{Lease: time.Hour})
			claimed <- err
		}()
		synctest.Wait()
		release := busy(db)
		submitted := make(chan error, 3)
		for i := range 3 {
			go func() {
				runs := 0
				submitted <- db.write(context.Background(), "test", writing(fmt.Sprint(i), nil, &runs))
			}()
		}
		synctest.Wait()
		go stop()
		synctest.Wait()
		release()
		for range 3 {
			must(t, <-submitted)
		}
		if err := <-claimed; !errors.Is(err, corebot.ErrClosed) {
			t.Fatalf("the waiting claim got %v", err)
		}
		for range 100 { // a race of two ready channels: once is luck
			if err := db.Ping(context.Background()); !errors.Is(err, corebot.ErrClosed) {
				t.Fatalf("got %v", err)
			}
			if _, err := NewQueue(db).Claim(context.Background(), corebot.InboundPool, 1,
				corebot.ClaimOptions{Lease: time.Hour}); !errors.Is(err, corebot.ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
	})
}

func TestReadingWritesNothing(t *testing.T) {
	dir := seeded(t)
	db := openTest(t, dir)
	before := sideQuery(t, dir, `SELECT batch FROM store`)[0]
	for range 5 {
		must(t, db.Ping(context.Background()))
	}
	if after := sideQuery(t, dir, `SELECT batch FROM store`)[0]; after != before {
		t.Fatalf("the batch number went from %s to %s", before, after)
	}
}

func TestAClaimWhoseCallerHasGoneIsForgotten(t *testing.T) {
	p := newWaitingClaims(newAside())
	for range 100 {
		o := &op{claim: &claim{pool: corebot.InboundPool, max: 1}}
		p.add(o)
		o.cancel()
	}
	if n := len(p.waiting[corebot.InboundPool]); n > 1 {
		t.Fatalf("%d claims that nobody waits for are kept", n)
	}
}

// The pool of a new process is not known: a message that is put off must not put off the others with it.
func TestAfterARestartOneRetryDoesNotHideTheOtherLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		db, err := Open(context.Background(), dir, Options{})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- db.Run(ctx) }()
		for _, chat := range []string{"a", "b", "c"} {
			publishTest(t, db, chat, chat)
		}
		stop()
		must(t, errors.Join(<-ended, db.Close()))

		db = openTest(t, dir)
		asked := time.Now()
		d := claimTest(t, db)
		must(t, NewQueue(db).Settle(context.Background(), d, corebot.Outcome{
			Verb: corebot.RetryAt,
			At:   time.Now().Add(5 * time.Minute),
		}))
		if claimTest(t, db); time.Since(asked) > 0 {
			t.Fatalf("the next lane had to wait for %v", time.Since(asked))
		}
	})
}
