package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/corebot/corebot"
)

// waitUntil waits for a condition that the writer brings about.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in 20 seconds: ", what)
		}
	}
}

func asideOf(t *testing.T, db *DB) []Aside {
	t.Helper()
	s, err := NewQueue(db).Stats(t.Context())
	must(t, err)
	return s.Aside
}

// breakQuery makes a query fail until heal is called, and counts how often it is tried.
func breakQuery(db *DB, q *query) (tries *atomic.Int64, heal func()) {
	tries = new(atomic.Int64)
	var healed atomic.Bool
	inject(db, func(sql string, after bool) error {
		if sql != q.sql || after || healed.Load() {
			return nil
		}
		tries.Add(1)
		return errDisk
	})
	return tries, func() { healed.Store(true) }
}

func TestALaneThatIsSetAsideIsShownAndGivenUp(t *testing.T) {
	dir, _ := damaged(t)
	registry := prometheus.NewRegistry()
	db, err := Open(t.Context(), dir, Options{Metrics: registry})
	must(t, err)
	runTest(t, db)
	got := consume(t, db)
	waitUntil(t, "the lane is set aside", func() bool { return len(asideOf(t, db)) == 1 })
	lane := asideOf(t, db)[0]
	if lane.Key != testKey("damaged") || lane.Pool != corebot.InboundPool ||
		!strings.Contains(lane.Error, "malformed") || lane.Since.IsZero() {
		t.Errorf("it is listed as %+v", lane)
	}
	wantGauge := func(n int) {
		t.Helper()
		want := fmt.Sprintf("# HELP corebot_lanes_set_aside Chats whose next message cannot be read from the "+
			"database; `corebot status` names them.\n# TYPE corebot_lanes_set_aside gauge\ncorebot_lanes_set_aside "+
			"%d\n", n)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "corebot_lanes_set_aside"); err != nil {
			t.Error(err)
		}
	}
	wantGauge(1)
	waitUntil(t, "another process sees it", func() bool {
		other, err := OpenReader(t.Context(), dir)
		must(t, err)
		defer other.Close() //nolint:errcheck // only read
		seen := asideOf(t, other)
		return len(seen) == 1 && seen[0].Lane == lane.Lane
	})

	given, err := NewDeadLetters(db).GiveUp(t.Context(), lane.Lane)
	must(t, err)
	if given.MessageID != "long" {
		t.Errorf("gave up %+v", given)
	}
	if id := next(t, got); id != "behind" {
		t.Errorf("then %q was claimed", id)
	}
	wantGauge(0)
	life, err := NewLives(db).Get(t.Context(), given.Life)
	must(t, err)
	if life.End != corebot.EndDead || life.Reason != corebot.ReasonDamaged || life.Message != nil {
		t.Errorf("its life is %+v", life)
	}
	if len(life.Replies) != 0 && life.Replies[0].Kind != corebot.KindNotice {
		t.Errorf("the chat was told %+v", life.Replies)
	}
	if err := NewDeadLetters(db).Replay(t.Context(), given.Life, false); !errors.Is(err, errUnreadable) {
		t.Errorf("it was replayed: %v", err)
	}
	if _, err := NewDeadLetters(db).GiveUp(t.Context(), lane.Lane); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("it was given up twice: %v", err)
	}
	for name, n := range db.state.total.depth {
		if n < 0 {
			t.Errorf("the total of direction %d is %d", name, n)
		}
	}
	if waiting := sideQuery(t, dir, `SELECT depth, bytes, past FROM lanes WHERE id = ?`,
		lane.Lane)[0]; waiting != "0|0|1" {
		t.Errorf("the lane has %s", waiting)
	}
}

func TestARepairedDatabaseGoesOnByItself(t *testing.T) {
	dir, repair := damaged(t)
	earlier(t, dir, func(db *DB) {
		_ = consume(t, db)
		waitUntil(t, "the lane is set aside", func() bool { return len(asideOf(t, db)) == 1 })
	})
	repair()
	db := openTest(t, dir)
	got := consume(t, db)
	if a, b := next(t, got), next(t, got); a != "long" || b != "behind" {
		t.Errorf("claimed %s, %s", a, b)
	}
	if left := asideOf(t, db); len(left) > 0 {
		t.Errorf("still set aside: %+v", left)
	}
}

// A page that can be read again, such as after a bad sector was written anew, needs no restart.
func TestALaneThatIsSetAsideIsTriedAgainEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), seeded(t), Options{})
		must(t, err)
		tries, heal := breakQuery(db, laneHead)
		stop := runWriter(db)
		publishTest(t, db, "a", "1")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan corebot.Delivery, 1)
		go func() {
			if ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1,
				corebot.ClaimOptions{Lease: time.Minute}); err == nil {
				got <- ds[0]
			}
		}()
		time.Sleep(time.Hour)
		if n := tries.Load(); n < 60 || n > 70 {
			t.Errorf("it was tried %d times in an hour, want once a minute", n)
		}
		heal()
		time.Sleep(asideMost + time.Second)
		synctest.Wait()
		if len(got) != 1 {
			t.Error("it was not claimed when it could be read again")
		}
		cancel()
		stop()
		must(t, db.Close())
	})
}

// The row of the lane may be on the damaged page, too.
func TestALaneWhoseRowCannotBeWrittenIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), seeded(t), Options{})
		must(t, err)
		reads, writes := 0, 0
		inject(db, func(sql string, after bool) error {
			switch {
			case sql == laneHead.sql && !after && reads == 0: // of the first lane
				reads++
				return errDisk
			case sql == setAsideLane.sql && !after:
				writes++
				return errDisk
			}
			return nil
		})
		stop := runWriter(db)
		publishTest(t, db, "a", "1")
		publishTest(t, db, "b", "2")
		first := claimTest(t, db)
		if first.Message.ID != "2" || writes != 1 {
			t.Errorf("claimed %q after %d writes", first.Message.ID, writes)
		}
		if s := asideOf(t, db); len(s) != 1 || s[0].Key.Chat != "a" {
			t.Errorf("set aside: %+v", s)
		}
		if second := claimTest(t, db); second.Message.ID != "1" { // it waits for the second try
			t.Errorf("claimed %q", second.Message.ID)
		}
		stop()
		must(t, db.Close())
	})
}

func TestAPoolWhoseLanesCannotBeChosenHoldsUpNoOtherAndNoOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), seeded(t), Options{})
		must(t, err)
		tries, heal := breakQuery(db, readyLanes)
		stop := runWriter(db)
		claim := func() error {
			_, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
			return err
		}
		refused := make(chan error, 100)
		go func() {
			for err := claim(); err != nil && len(refused) < cap(refused); err = claim() {
				refused <- err
			}
		}()
		synctest.Wait()
		for i := range 20 {
			publishTest(t, db, "a", fmt.Sprint(i))
		}
		time.Sleep(10 * time.Second)
		if n := tries.Load(); n < 5 || n > 15 {
			t.Errorf("its lanes were looked for %d times in ten seconds, want about one a second", n)
		}
		if n := len(refused); n == 0 || !errors.Is(<-refused, errDisk) {
			t.Errorf("%d claims were refused", n)
		}
		heal()
		time.Sleep(2 * failurePause)
		must(t, claim())
		stop()
		must(t, db.Close())
	})
}

func TestALaneThatLostItsMessageIsSetAsideAndGivenUp(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) {
		publishTest(t, db, "a", "lost")
		publishTest(t, db, "a", "kept")
	})
	sideQuery(t, dir, `DELETE FROM message_queue`)
	db := openTest(t, dir)
	got := consume(t, db)
	waitUntil(t, "the lane is set aside", func() bool { return len(asideOf(t, db)) == 1 })
	given, err := NewDeadLetters(db).GiveUp(t.Context(), asideOf(t, db)[0].Lane)
	must(t, err)
	if given.MessageID != "lost" {
		t.Errorf("gave up %+v", given)
	}
	publishTest(t, db, "a", "new")
	if id := next(t, got); id != "new" {
		t.Errorf("claimed %q", id)
	}
	problems, err := db.Problems(t.Context())
	if err != nil || len(problems) > 0 {
		t.Errorf("left: %v %v", problems, err)
	}
}

// TestAJobThatLostItsMessageEnds: it wakes its parent and no longer counts, whoever notices it first.
func TestAJobThatLostItsMessageEnds(t *testing.T) {
	for name, end := range map[string]func(*DB, int64) error{
		"it is given up": func(db *DB, _ int64) error {
			waitUntil(t, "its lane is set aside", func() bool { return len(asideOf(t, db)) == 1 })
			_, err := NewDeadLetters(db).GiveUp(t.Context(), asideOf(t, db)[0].Lane)
			return err
		},
		"it is stopped": func(db *DB, id int64) error { return NewJobs(db).Stop(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, begun := seeded(t), corebot.Pending{}
			earlier(t, dir, func(db *DB) {
				publishTest(t, db, "a", "parent")
				d := claimTest(t, db)
				var err error
				begun, err = NewLedger(db).Wait(t.Context(), d, corebot.Step{
					Kind: corebot.StepTool, State: corebot.StepWaiting, Call: &corebot.ToolCall{Tool: "agent.run"},
				}, corebot.Pending{
					Kind: corebot.WaitJob, State: corebot.WaitAwaited, Until: time.Now().Add(time.Hour),
					Job: &corebot.NewJob{Kind: corebot.JobRun, Prompt: "look it up", Asks: d.Caller()},
				}, corebot.AuditEvent{Tool: "agent.run", Key: d.Message.Key})
				must(t, err)
				must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
					Verb: corebot.Wait, At: begun.Until, Reason: begun.Awaiting(),
				}))
			})
			sideQuery(t, dir, `DELETE FROM message_queue WHERE life_id = (SELECT life_id FROM jobs)`)
			db := openTest(t, dir)
			got := consume(t, db)
			must(t, end(db, begun.ID))
			if id := next(t, got); id != "parent" {
				t.Errorf("claimed %q", id)
			}
			j, err := NewJobs(db).Job(t.Context(), begun.ID)
			if must(t, err); j.State == corebot.JobOpen || j.EndedAt.IsZero() {
				t.Errorf("the job is %+v", j)
			}
		})
	}
}

func TestADeferredMessageThatCannotBeReadHoldsUpNobody(t *testing.T) {
	for name, due := range map[string]bool{"when it falls due": true, "when the database is opened": false} {
		t.Run(name, func(t *testing.T) {
			dir := seeded(t)
			deferIt := func(db *DB, m corebot.Message) {
				_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
				must(t, err)
				must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
					Verb: corebot.Defer,
					At:   time.Now().Add(time.Hour), Reason: "budget",
				}))
			}
			earlier(t, dir, func(db *DB) {
				deferIt(db, longMessage("damaged", "long"))
				deferIt(db, testMessage("other", "short"))
			})
			if due {
				sideQuery(t, dir, `UPDATE message_parked SET due_at = 1`)
			}
			breakOverflow(t, dir)
			db, err := Open(t.Context(), dir, Options{KeepDeferred: due})
			must(t, err)
			runTest(t, db)
			got := consume(t, db)
			publishTest(t, db, "third", "3")
			if a, b := next(t, got), next(t, got); a+b != "short3" && a+b != "3short" {
				t.Errorf("claimed %q, %q", a, b)
			}
			if due {
				waitUntil(t, "the deferred message is shown", func() bool {
					s := asideOf(t, db)
					return len(s) == 1 &&
						s[0].Lane < 0
				})
			}
		})
	}
}

// The store does not trust what a damaged row says about other pages: to free them could damage other chats.
func TestALongMessageThatIsDamagedIsLeftWhereItIs(t *testing.T) {
	dir := seeded(t)
	earlier(t, dir, func(db *DB) {
		_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{longMessage("a", "long")}, corebot.Limits{})
		must(t, err)
		publishTest(t, db, "a", "behind")
	})
	sideQuery(t, dir, `UPDATE message_queue SET body = zeroblob(LENGTH(body)) WHERE life_id = 1`)
	db := openTest(t, dir)
	d := claimTest(t, db)
	if d.Damaged == nil {
		t.Fatal("nothing is damaged")
	}
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
		Verb: corebot.Dead, Reason: corebot.ReasonDamaged,
		Error: "x",
	}))
	if rows := sideQuery(t, dir, `SELECT COUNT(*) FROM message_queue`)[0]; rows != "2" {
		t.Errorf("%s rows are in the queue", rows)
	}
	if d := claimTest(t, db); d.Message.ID != "behind" {
		t.Errorf("claimed %q", d.Message.ID)
	}
	if problems, err := db.Problems(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("left: %v %v", problems, err)
	}
}

func TestAClaimWhoseLeaseCannotBeWrittenWaitsOn(t *testing.T) {
	for name, leaves := range map[string]bool{"and gets another lane": false, "unless its caller has gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, err := Open(t.Context(), seeded(t), Options{})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				failed := false
				inject(db, func(sql string, after bool) error {
					if sql != leaseLane.sql || after || failed {
						return nil
					}
					if failed = true; leaves {
						cancel()
						time.Sleep(time.Millisecond) // the caller notices, and finds its claim taken
					}
					return errDisk
				})
				stop := runWriter(db)
				publishTest(t, db, "a", "1")
				if !leaves {
					time.Sleep(time.Millisecond)
					publishTest(t, db, "b", "2")
				}
				ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
				switch {
				case leaves && !errors.Is(err, context.Canceled):
					t.Errorf("the claim ended with %v", err)
				case !leaves && (err != nil || ds[0].Message.ID != "2"):
					t.Errorf("got %+v, %v", ds, err)
				}
				cancel()
				stop()
				must(t, db.Close())
			})
		})
	}
}

// The timer and the row of a lane know whole milliseconds.
func TestALaneIsTriedAgainInTheMillisecondThatItsRowNames(t *testing.T) {
	a := newAside()
	now := time.UnixMilli(1_700_000_000_000).Add(700 * time.Microsecond)
	l, _ := a.put(&unserved{pool: corebot.InboundPool, lane: &claimed{lane: 1}, err: errNoHead}, now)
	row := l.Until.UnixMilli()
	if a.stands(1, time.UnixMilli(row)) != asideDue || a.stands(1, time.UnixMilli(row-1)) != asideNow {
		t.Errorf("set aside until %v, it is not due exactly at %d", l.Until, row)
	}
}
