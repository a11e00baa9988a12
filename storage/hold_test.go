package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// saidBy is a message of somebody in a chat.
func saidBy(sender, chat, id string) corebot.Message {
	m := testMessage(chat, id)
	m.Sender = corebot.Principal{Channel: m.Key.Channel, ID: sender}
	return m
}

func publishAs(t testing.TB, db *DB, sender, chat, id string) {
	t.Helper()
	r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{saidBy(sender, chat, id)}, corebot.Limits{})
	must(t, err)
	must(t, r[0].Err)
}

// shop is a number of workers that share their turns fairly.
type shop struct {
	t     testing.TB
	db    *DB
	turns int
	busy  []corebot.Delivery
}

// claim has every free worker ask for work, and says whose messages they got. It waits for long if there must be some.
func (s *shop) claim(must bool) (senders []string) {
	s.t.Helper()
	for len(s.busy) < s.turns {
		patience := time.Millisecond
		if must && len(senders) == 0 {
			patience = 30 * time.Second
		}
		more := s.claimWithin(patience)
		if len(more) == 0 {
			break
		}
		senders = append(senders, more...)
	}
	return senders
}

func (s *shop) claimWithin(patience time.Duration) (senders []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(s.busy) < s.turns {
		ds, err := NewQueue(s.db).Claim(ctx, corebot.InboundPool, s.turns-len(s.busy),
			corebot.ClaimOptions{Lease: time.Minute, Turns: s.turns})
		if errors.Is(err, context.DeadlineExceeded) {
			return senders
		}
		must(s.t, err)
		for _, d := range ds {
			senders = append(senders, d.Message.Sender.ID)
		}
		s.busy = append(s.busy, ds...)
	}
	return senders
}

// end settles the oldest turn of a sender.
func (s *shop) end(sender string) {
	s.t.Helper()
	i := slices.IndexFunc(s.busy, func(d corebot.Delivery) bool { return d.Message.Sender.ID == sender })
	if i < 0 {
		s.t.Fatalf("%s has no turn", sender)
	}
	must(s.t, NewQueue(s.db).Settle(context.Background(), s.busy[i],
		corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	s.busy = slices.Delete(s.busy, i, i+1)
}

// counts are how many turns each sender has.
func (s *shop) counts() map[string]int {
	n := map[string]int{}
	for _, d := range s.busy {
		n[d.Message.Sender.ID]++
	}
	return n
}

func TestHundredsOfChatsOfOneSenderHoldUpNoOtherSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		s := &shop{t: t, db: db, turns: 8}
		for i := range 300 {
			publishAs(t, db, "hog", fmt.Sprint("h", i), fmt.Sprint(i))
		}
		if s.claim(true); s.counts()["hog"] != 4 {
			t.Errorf("one sender alone has %d of 8 turns", s.counts()["hog"])
		}
		publishAs(t, db, "ann", "a", "1")
		if got := s.claim(true); !slices.Equal(got, []string{"ann"}) {
			t.Errorf("with half of the turns free %q were claimed", got)
		}
		for _, sender := range []string{"bob", "eve"} {
			for i := range 50 {
				publishAs(t, db, sender, fmt.Sprint(sender, i), fmt.Sprint(i))
			}
		}
		s.claim(true)
		if n := s.counts(); n["bob"] < 1 || n["eve"] < 1 || n["bob"]+n["eve"] > 3 {
			t.Errorf("the turns are %v", n)
		}
		served := map[string]int{}
		for range 60 { // whoever's turn ends, those who wait are served in turn
			s.end("hog")
			for _, who := range s.claim(false) {
				served[who]++
			}
			if s.counts()["hog"] == 0 {
				break
			}
		}
		if len(served) == 0 {
			t.Error("nobody was served")
		}
	})
}

func TestPrincipalsTakeTurnsHoweverManyChatsEachHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		s := &shop{t: t, db: db, turns: 1}
		for i, n := range []int{40, 4, 1} {
			for c := range n {
				publishAs(t, db, fmt.Sprint(i), fmt.Sprint(i, "/", c), "m")
			}
		}
		var order []string
		for range 45 {
			got := s.claim(true)
			if len(got) != 1 {
				t.Fatalf("after %d turns %q were claimed", len(order), got)
			}
			order = append(order, got...)
			s.end(got[0])
			time.Sleep(time.Millisecond) // who became ready in one millisecond comes in any order
		}
		// of the first 12 turns every third is for the second sender
		for who, last := range map[string]int{"1": 12, "2": 3} {
			if i := lastOf(order, who); i >= last {
				t.Errorf("sender %s had its last turn as number %d: %q", who, i+1, order)
			}
		}
	})
}

func lastOf(order []string, who string) int {
	for i := len(order) - 1; i >= 0; i-- {
		if order[i] == who {
			return i
		}
	}
	return -1
}

func TestAFairStoreServesEverything(t *testing.T) {
	for seed := range long.Or(uint64(1), 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				dir := t.TempDir()
				db := openTest(t, dir)
				s := &shop{t: t, db: db, turns: 1 + r.IntN(9)}
				waits, published := 0, map[string]int{}
				ended := map[string]int{}
				for step := 0; step < 150 || waits > 0 || len(s.busy) > 0; step++ {
					if step > 3000 {
						t.Fatalf("%d messages still wait, %d run", waits, len(s.busy))
					}
					switch {
					case step < 150 && r.IntN(3) > 0:
						chat := fmt.Sprint(r.IntN(30))
						published[chat]++
						publishAs(t, db, fmt.Sprint(r.IntN(1+r.IntN(5))), chat, fmt.Sprint(published[chat]))
						waits++
					case len(s.busy) > 0 && r.IntN(2) == 0:
						i := r.IntN(len(s.busy))
						d := s.busy[i]
						s.busy = slices.Delete(s.busy, i, i+1)
						o := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
						if o.Verb = []corebot.OutcomeVerb{
							corebot.Done, corebot.Done, corebot.RetryAt,
							corebot.Wait,
						}[r.IntN(4)]; o.Verb != corebot.Done {
							o.At = time.Now()
							waits++
						} else if chat := d.Message.Key.Chat; d.Message.ID != fmt.Sprint(ended[chat]+1) {
							t.Fatalf("message %s of chat %s came after %d", d.Message.ID, chat, ended[chat])
						} else {
							ended[chat]++
						}
						must(t, NewQueue(db).Settle(context.Background(), d, o))
					default:
						got := s.claim(len(s.busy) == 0 && waits > 0)
						if step%long.Or(5, 1) == 0 {
							wantFlows(t, dir, s)
						}
						if waits -= len(got); len(s.busy) == 0 && waits > 0 {
							t.Fatalf("%d messages wait, and an idle shop gets none", waits)
						}
					}
				}
			})
		})
	}
}

// held are the chats whose lanes are held back.
func held(t *testing.T, dir string) []string {
	t.Helper()
	return sideQuery(t, dir, `SELECT chat FROM lanes WHERE held_for IS NOT NULL ORDER BY chat`)
}

func TestAStopOfAMessageThatIsHeldBackIsHeard(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	s := &shop{t: t, db: db, turns: 2}
	for _, chat := range []string{"a", "b", "c"} {
		publishAs(t, db, "hog", chat, chat)
	}
	s.claim(true)
	waiting := held(t, dir)
	if len(s.busy) != 1 || len(waiting) != 2 {
		t.Fatalf("%d turns run, %q are held back", len(s.busy), waiting)
	}
	k := testKey(waiting[1])
	head, _, err := NewLedger(db).Head(t.Context(), k)
	must(t, err)
	m := saidBy("hog", k.Chat, "stop")
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	_, err = NewLedger(db).Stop(t.Context(), m, head, corebot.AuditEvent{}, func(bool) corebot.Message {
		return outboundTest(k.Chat, "stopped")
	})
	must(t, err)
	s.claim(true)
	if d := s.busy[len(s.busy)-1]; len(s.busy) != 2 || d.Message.Key != k || !d.Stopped {
		t.Errorf("%d turns run, the last of %v", len(s.busy), d.Message.Key)
	}
}

func TestNothingIsHeldBackOverARestart(t *testing.T) {
	dir := t.TempDir()
	earlier(t, dir, func(db *DB) {
		s := &shop{t: t, db: db, turns: 2}
		for i := range 10 {
			publishAs(t, db, "hog", fmt.Sprint(i), fmt.Sprint(i))
		}
		s.claim(true)
		if got := held(t, dir); len(got) != 9 {
			t.Errorf("%q are held back", got)
		}
	})
	db := openTest(t, dir)
	if got := held(t, dir); len(got) != 0 {
		t.Errorf("%q are held back", got)
	}
	ds, err := NewQueue(db).Claim(t.Context(), corebot.InboundPool, 10, corebot.ClaimOptions{Lease: time.Minute})
	must(t, err)
	if len(ds) != 10 {
		t.Errorf("%d lanes were claimed", len(ds))
	}
}

func TestADamagedMessageHoldsUpNoOtherOfItsSender(t *testing.T) {
	dir, _ := damaged(t)
	db := openTest(t, dir)
	s := &shop{t: t, db: db, turns: 2}
	sender := testMessage("x", "x").Sender.ID
	for i := range 8 {
		publishAs(t, db, sender, fmt.Sprint("other", i), "m")
	}
	for range 8 {
		s.claim(true)
		s.end(sender)
	}
}

func TestALaneThatIsNotClaimedLosesItsPlaceInLine(t *testing.T) {
	f, now, who := newFlows(), time.Now(), corebot.Principal{Channel: "test", ID: "ann"}
	f.lookThrough(now)
	f.change(who, func(v *flow) { v.held, v.next, v.since = 3, 7, now })
	if f.lookThrough(now.Add(lineTime - 1)); f.stalled[who] {
		t.Error("it was given up too early")
	}
	if f.lookThrough(now.Add(2 * lineTime)); !f.stalled[who] || f.of[who].next != 0 {
		t.Errorf("its principal is %+v", f.of[who])
	}
	f.rollback()
	if len(f.of) != 0 || len(f.stalled) != 0 {
		t.Errorf("undone it is %+v, %v", f.of, f.stalled)
	}
}

// wantFlows says that the writer's flows are what the database has: lanes that are held back, and turns that run.
func wantFlows(t *testing.T, dir string, s *shop) {
	t.Helper()
	held, running := map[string]int{}, map[string]int{}
	must(t, s.db.betweenTransactions(t.Context(), func(w *writer) {
		for p, f := range w.flows.of {
			if f.held != 0 {
				held[p.ID] = f.held
			}
			if f.running != 0 {
				running[p.ID] = f.running
			}
		}
	}))
	stored := map[string]int{}
	var odd []string
	sideQueries(t, dir, func(ask asker) {
		for _, who := range ask(`SELECT held_for FROM lanes WHERE held_for IS NOT NULL`) {
			stored[who]++
		}
		odd = ask(`SELECT chat FROM lanes WHERE held_for IS NOT NULL AND (leased = 1 OR depth = 0)`)
	})
	if !maps.Equal(held, stored) {
		t.Fatalf("held back are %v, the database has %v", held, stored)
	}
	if !maps.Equal(running, s.counts()) {
		t.Fatalf("the turns that run are %v, want %v", running, s.counts())
	}
	if len(odd) > 0 {
		t.Fatalf("%q are held back and leased, or empty", odd)
	}
}

func TestALaneThatIsSetAsideHasNoTurnAndIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		s := &shop{t: t, db: db, turns: 2}
		for _, chat := range []string{"a", "b", "c"} {
			publishAs(t, db, "hog", chat, chat)
		}
		s.claim(true)
		waiting := held(t, dir)
		if len(waiting) != 2 {
			t.Fatalf("%q are held back", waiting)
		}
		var lane int64
		_, err := db.reader.one(t.Context(), &query{`SELECT id FROM lanes WHERE chat = ? AND direction = 1`},
			[]any{&lane}, waiting[0])
		must(t, err)
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			return storeAsideTx(t, []Aside{{Lane: lane, Pool: corebot.InboundPool, Until: t.now.Add(time.Hour)}})
		}))
		wantFlows(t, dir, s)
		if got := held(t, dir); !slices.Equal(got, waiting[1:]) {
			t.Errorf("%q are held back, want %q", got, waiting[1:])
		}
		must(t, db.betweenTransactions(t.Context(), func(w *writer) { // the lease is over, and the head cannot be read
			w.leave(&unserved{pool: corebot.InboundPool, lane: &claimed{lane: s.busy[0].Lane}, err: errNoHead})
		}))
		s.busy = nil
		wantFlows(t, dir, s)
	})
}

// TestALaneThatIsGivenUpIsNotHeldBack has a lane whose row never came to say that it is set aside: the writer alone
// knows.
func TestALaneThatIsGivenUpIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		s := &shop{t: t, db: db, turns: 2}
		for _, chat := range []string{"a", "b"} {
			publishAs(t, db, "hog", chat, chat)
		}
		s.claim(true)
		waiting := held(t, dir)
		if len(waiting) != 1 {
			t.Fatalf("%q are held back", waiting)
		}
		var lane int64
		_, err := db.reader.one(t.Context(), &query{`SELECT id FROM lanes WHERE chat = ? AND direction = 1`},
			[]any{&lane}, waiting[0])
		must(t, err)
		unread, _ := db.aside.put(&unserved{
			pool: corebot.InboundPool,
			lane: &claimed{lane: lane, key: testKey(waiting[0])}, err: errNoHead,
		}, time.Now())
		db.aside.note([]Aside{unread}, asideInMemory)
		_, err = NewDeadLetters(db).GiveUp(t.Context(), lane)
		must(t, err)
		wantFlows(t, dir, s)
		if got := held(t, dir); len(got) != 0 {
			t.Errorf("%q are held back", got)
		}
	})
}

func inLine(t *testing.T, db *DB) (lanes map[int64]corebot.Principal) {
	t.Helper()
	must(t, db.betweenTransactions(t.Context(), func(w *writer) { lanes = maps.Clone(w.flows.inLine) }))
	return lanes
}

// collecting is a store that collects, in which a sender has turns and lanes that wait.
func collecting(t *testing.T, turns int, chats ...string) (s *shop, dir string) {
	t.Helper()
	dir = seeded(t)
	db, err := Open(t.Context(), dir, Options{Queueing: corebot.Queueing{Debounce: 2 * time.Second}})
	must(t, err)
	runTest(t, db)
	for _, chat := range chats {
		must(t, NewChats(db).SetQueueMode(t.Context(), testKey(chat), corebot.ModeCollect))
		publishAs(t, db, "hog", chat, chat)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	return &shop{t: t, db: db, turns: turns}, dir
}

func TestALaneThatCollectsWaitsForItsSilenceWhileOthersGoOn(t *testing.T) {
	t.Run("held back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, dir := collecting(t, 2, "a", "b", "c", "d")
			s.claim(true)
			publishAs(t, s.db, "hog", "b", "another")
			wantFlows(t, dir, s)
			s.wantLast("b", 3)
		})
	})
	t.Run("in line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, dir := collecting(t, 2, "a", "b", "c", "d")
			s.claim(true)
			publishAs(t, s.db, "ann", "ann", "ann")
			s.claim(true)
			publishAs(t, s.db, "bob", "bob", "bob")
			time.Sleep(time.Millisecond)
			s.end("hog")
			s.claim(true) // bob's, which was ready first
			chat := ""
			for lane := range inLine(t, s.db) {
				chat = sideQuery(t, dir, fmt.Sprint("SELECT chat FROM lanes WHERE id = ", lane))[0]
			}
			if chat == "" {
				t.Fatal("no lane is in line")
			}
			publishAs(t, s.db, "hog", chat, "another")
			wantFlows(t, dir, s)
			s.end("ann")
			s.end("bob")
			s.wantLast(chat, 3)
		})
	})
}

// wantLast claims so many turns of the hog, one after the other: those of other chats at once, that of a chat that
// collects as the last.
func (s *shop) wantLast(chat string, turns int) {
	s.t.Helper()
	for i := range turns {
		if len(s.busy) > 0 {
			s.end("hog")
		}
		began := time.Now()
		s.claim(true)
		got, took := s.busy[len(s.busy)-1].Message.Key.Chat, time.Since(began)
		if last := i == turns-1; (got == chat) != last || !last && took > 10*time.Millisecond {
			s.t.Errorf("%s was claimed after %v as number %d, want %s as the last", got, took, i, chat)
		}
	}
}

func TestALaneThatIsHeldBackIsSaidToWaitForItsTurnAndForNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		s := &shop{t: t, db: db, turns: 2}
		publishAs(t, db, "hog", "a", "again")
		s.claim(true)
		must(t, NewQueue(db).Settle(t.Context(), s.busy[0], corebot.Outcome{
			Verb: corebot.RetryAt, Reason: "backoff",
			At: time.Now().Add(time.Second),
		}))
		s.busy = nil
		publishAs(t, db, "hog", "b", "runs")
		publishAs(t, db, "hog", "c", "new")
		s.claim(true)
		time.Sleep(time.Second)
		s.claim(false) // the one that was tried before is held back, too
		for _, id := range []string{"again", "new"} {
			lives, err := NewLives(db).Find(t.Context(), id)
			must(t, err)
			if l := lives[0]; l.State != "waiting: "+corebot.HeldBack || !l.WakeAt.IsZero() {
				t.Errorf("%s is %q until %v", id, l.State, l.WakeAt)
			}
		}
	})
}
