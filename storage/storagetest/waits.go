package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
)

// Waits are what tool calls wait for. The [Journal] begins them. They guarantee:
//
//   - A call begins to wait once, with its step and its audit event, and its wait comes back exactly.
//   - A wait for a time is over at its time, and not before.
//   - A wait for a word expires when its time is over, and not before.
//   - A word ends its wait once, and whoever comes later is told how.
//   - A word wakes the lane of its message, also one that comes before the lane waits.
//   - A word that comes before a call waits for it is not lost.
//   - A key gives one word, and only to the wait that it is the key of.
//   - What somebody says to a turn ends its wait, and leaves a word that no call waits for yet.
//   - A message that is stopped, or ends, leaves nothing waiting, and a replay of it begins anew.
//   - A wait beyond a limit is refused and leaves nothing, and an ended one no longer counts.
//   - A command gives a word once, in one commit with its notice.
//   - A command that is denied gives nothing and leaves its audit event.
//   - A number that is not known, and a word that is too long, end nothing.
type Waits interface {
	router.Waits
	operate.Waits
	CheckKey(ctx context.Context, id int64, key string) error
	GiveByKey(ctx context.Context, id int64, key string, word corebot.Word) (duplicate bool, err error)
}

func waitSpecs() []spec {
	return []spec{
		{
			"A call begins to wait once, with its step and its audit event, and its wait comes back exactly.",
			callWaitsOnce,
		},
		{"A wait for a time is over at its time, and not before.", timeComes},
		{"A wait for a word expires when its time is over, and not before.", wordExpires},
		{"A word ends its wait once, and whoever comes later is told how.", wordEndsOnce},
		{"A word wakes the lane of its message, also one that comes before the lane waits.", wordWakes},
		{"A word that comes before a call waits for it is not lost.", earlyWordIsKept},
		{"A key gives one word, and only to the wait that it is the key of.", keyGivesOnce},
		{
			"What somebody says to a turn ends its wait, and leaves a word that no call waits for yet.",
			steerEndsWait,
		},
		{
			"A message that is stopped, or ends, leaves nothing waiting, and a replay of it begins anew.",
			endLeavesNoWait,
		},
		{"A wait beyond a limit is refused and leaves nothing, and an ended one no longer counts.", waitsAreLimited},
		{"A command gives a word once, in one commit with its notice.", commandGivesOnce},
		{"A command that is denied gives nothing and leaves its audit event.", deniedCommandGivesNothing},
		{"A number that is not known, and a word that is too long, end nothing.", nonsenseEndsNothing},
	}
}

func (s *suite) words() Waits { return s.Waits(operator()) }

// pending is a wait of a minute.
func pending(kind corebot.WaitKind, state corebot.WaitState) corebot.Pending {
	return corebot.Pending{
		Kind: kind, State: state, For: "the end of a build", Until: time.Now().Add(patience),
		Secret: corebot.HashKey("key"),
	}
}

// waitAt has the call at a position wait.
func (s *suite) waitAt(d corebot.Delivery, position int, w corebot.Pending) (corebot.Pending, error) {
	s.t.Helper()
	return s.Journal.Wait(s.ctx(), d, toolStep(position, "x", corebot.StepWaiting), w,
		corebot.AuditEvent{Tool: "a.tool", Key: d.Message.Key, Principal: d.Message.Sender, Rule: "open"})
}

// waiting has a new turn wait, and end its claim.
func (s *suite) waiting(id string, kind corebot.WaitKind) corebot.Pending {
	s.t.Helper()
	d := s.begin(key("a"), id)
	w, err := s.waitAt(d, 0, pending(kind, corebot.WaitAwaited))
	s.must(err)
	s.sleeps(d, w)
	return w
}

// sleeps ends the claim of a turn that waits.
func (s *suite) sleeps(d corebot.Delivery, w corebot.Pending) {
	s.t.Helper()
	s.commit(d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Wait, At: w.Until, Reason: w.Awaiting()}})
}

// wantWait reads a wait and compares how it stands.
func (s *suite) wantWait(id int64, want corebot.WaitState) corebot.Pending {
	s.t.Helper()
	w, err := s.words().Wait(s.ctx(), id)
	s.must(err)
	if w.State != want || w.EndedAt.IsZero() == !w.Waits() {
		s.t.Errorf("wait %d is %+v, want %s", id, w, want)
	}
	return w
}

// wantOver finds that a word comes too late.
func (s *suite) wantOver(err error, state corebot.WaitState) {
	s.t.Helper()
	if late := (*corebot.NoLongerWaits)(nil); !errors.As(err, &late) || late.Was.State != state {
		s.t.Errorf("who is late is told %v, want %s", err, state)
	}
}

func callWaitsOnce(s *suite) {
	d := s.begin(key("a"), "1")
	want := pending(corebot.WaitWord, corebot.WaitAwaited)
	first, err := s.waitAt(d, 0, want)
	s.must(err)
	for range 2 {
		again, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitAwaited))
		s.must(err)
		s.equal("begun again", again, first)
		s.reopen()
		d = s.claim()
	}
	looked, err := s.waitAt(d, 0, corebot.Pending{})
	s.must(err)
	s.equal("looked at", looked, first)
	if none, err := s.waitAt(d, 1, corebot.Pending{}); err != nil || none.ID != 0 {
		s.t.Errorf("a call that never waited has %+v, %v", none, err)
	}
	want.ID, want.Life, want.MessageID, want.Key, want.Results = first.ID, d.Life, "1", key("a"), key("a")
	want.Principal, want.CreatedAt = person("ann"), first.CreatedAt
	want.Rule = "open"
	s.equal("the wait", first, want)
	if len(d.Journal) != 1 || d.Journal[0].State != corebot.StepWaiting {
		s.t.Errorf("the journal is %+v", d.Journal)
	}
	all, _, err := s.words().Page(s.ctx(), false, "", 10)
	s.must(err)
	s.equal("the list", all, []corebot.Pending{first})
	s.wantEvents("wait.begin")
}

func timeComes(s *suite) {
	for _, kind := range []corebot.WaitKind{corebot.WaitTime, corebot.WaitSpan} {
		w := s.waiting(string(kind), kind)
		time.Sleep(time.Until(w.Until) - 2*moment)
		s.nothingDue() // takes a moment
		time.Sleep(moment)
		s.wantOver(s.words().Give(s.ctx(), w.ID, corebot.Word{}), corebot.WaitMet)
		d := s.claim()
		over, err := s.waitAt(d, 0, corebot.Pending{})
		s.must(err)
		if over.State != corebot.WaitMet || over.By != "" || d.Attempt != 1 {
			s.t.Errorf("attempt %d finds %+v", d.Attempt, over)
		}
		s.reopen() // while it wakes
		d = s.claim()
		again, err := s.waitAt(d, 0, corebot.Pending{})
		s.must(err)
		s.equal("after a crash", again, over)
		s.wantWait(w.ID, corebot.WaitMet)
		s.commit(d, corebot.Result{Outcome: answered()})
	}
	s.wantEvents("wait.begin", "wait.begin")
}

func wordExpires(s *suite) {
	w := s.waiting("1", corebot.WaitWord)
	time.Sleep(time.Until(w.Until) - 2*moment)
	s.nothingDue()
	s.wantWait(w.ID, corebot.WaitAwaited)
	time.Sleep(moment)
	s.wantOver(s.words().Give(s.ctx(), w.ID, corebot.Word{Text: "late"}), corebot.WaitExpired)
	_, err := s.waitAt(s.claim(), 0, corebot.Pending{})
	s.must(err)
	s.wantWait(w.ID, corebot.WaitExpired)
	s.wantEvents("wait.begin", "wait.expire")
}

func wordEndsOnce(s *suite) {
	w := s.waiting("1", corebot.WaitWord)
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			err := s.Waits(callBy(person(fmt.Sprint(i)))).Give(s.ctx(), w.ID, corebot.Word{Text: fmt.Sprint(i)})
			if err == nil {
				won.Add(1)
				return
			}
			s.wantOver(err, corebot.WaitMet)
		})
	}
	all.Wait()
	if won.Load() != 1 {
		s.t.Fatalf("%d words were taken", won.Load())
	}
	over := s.wantWait(w.ID, corebot.WaitMet)
	if over.By != person(over.Word.Text).String() {
		s.t.Errorf("the word of %s is %q", over.By, over.Word.Text)
	}
	s.wantEvents("wait.begin", "wait.word")
}

func wordWakes(s *suite) {
	for i, early := range []bool{true, false} {
		d := s.begin(key("a"), fmt.Sprint(i))
		w, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitAwaited))
		s.must(err)
		give := func() {
			s.must(s.words().Give(s.ctx(), w.ID, corebot.Word{Text: "go", Outside: true}))
		}
		if early {
			give()
		}
		s.sleeps(d, w)
		if !early {
			s.publish(prompt(key("a"), fmt.Sprint("behind-", i)))
			s.nothingDue()
			give()
		}
		d = s.claim()
		came, err := s.waitAt(d, 0, corebot.Pending{})
		s.must(err)
		if d.Life != w.Life || d.Attempt != 1 || came.Word != (corebot.Word{Text: "go", Outside: true}) {
			s.t.Fatalf("attempt %d of life %d finds %+v", d.Attempt, d.Life, came)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
	}
}

func earlyWordIsKept(s *suite) {
	for i, early := range []bool{true, false} {
		d := s.begin(key("a"), fmt.Sprint(i))
		w, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitOpen))
		s.must(err)
		s.record(d, toolStep(0, "x", corebot.StepDone))
		if early {
			s.must(s.words().Give(s.ctx(), w.ID, corebot.Word{Text: "early"}))
		}
		takes := corebot.Pending{ID: w.ID, Kind: corebot.WaitWord}
		if _, err := s.waitAt(d, 1, corebot.Pending{ID: w.ID + 1, Kind: corebot.WaitWord}); !refused(err) {
			s.t.Errorf("a number that nobody opened: %v", err)
		}
		for range 2 {
			stands, err := s.waitAt(d, 1, takes)
			s.must(err)
			want := corebot.WaitAwaited
			if early {
				want = corebot.WaitMet
			}
			if stands.ID != w.ID || stands.State != want {
				s.t.Errorf("early %v: it is %+v", early, stands)
			}
			s.reopen()
			d = s.claim()
		}
		s.publish(prompt(key("b"), fmt.Sprint("other-", i)))
		other := s.claim()
		if _, err := s.waitAt(other, 0, takes); !refused(err) {
			s.t.Errorf("early %v: another message takes the word: %v", early, err)
		}
		s.commit(other, corebot.Result{Outcome: answered()})
		if _, err := s.waitAt(d, 2, takes); refused(err) == early {
			s.t.Errorf("early %v: a second call that waits for it: %v", early, err)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
	}
}

func refused(err error) bool {
	r := (*corebot.Refused)(nil)
	return errors.As(err, &r)
}

func keyGivesOnce(s *suite) {
	w := s.waiting("1", corebot.WaitWord)
	for _, wrong := range []struct {
		id  int64
		key string
	}{{w.ID, "other"}, {w.ID, ""}, {w.ID + 1, "key"}} {
		s.wantErr(s.words().CheckKey(s.ctx(), wrong.id, wrong.key), corebot.ErrWrongKey)
		_, err := s.words().GiveByKey(s.ctx(), wrong.id, wrong.key, corebot.Word{})
		s.wantErr(err, corebot.ErrWrongKey)
	}
	s.wantWait(w.ID, corebot.WaitAwaited)
	program := s.Waits(corebot.AuditEvent{Entry: corebot.EntryWord})
	for n := range 2 {
		s.must(program.CheckKey(s.ctx(), w.ID, "key"))
		duplicate, err := program.GiveByKey(s.ctx(), w.ID, "key", corebot.Word{Text: "done", Outside: true})
		if err != nil || duplicate != (n == 1) {
			s.t.Errorf("time %d: duplicate %v, %v", n, duplicate, err)
		}
	}
	if over := s.wantWait(w.ID, corebot.WaitMet); over.By != corebot.ByKey || over.Word.Text != "done" {
		s.t.Errorf("it is over by %q with %+v", over.By, over.Word)
	}
	_, err := program.GiveByKey(s.ctx(), w.ID, "key", corebot.Word{Text: "another"})
	s.wantOver(err, corebot.WaitMet)
	s.commit(s.claim(), corebot.Result{Outcome: answered()})
	keyless := pending(corebot.WaitWord, corebot.WaitAwaited)
	keyless.Secret = corebot.KeyHash{}
	none, err := s.waitAt(s.begin(key("a"), "2"), 0, keyless)
	s.must(err)
	s.wantErr(s.words().CheckKey(s.ctx(), none.ID, ""), corebot.ErrWrongKey)
}

func steerEndsWait(s *suite) {
	d := s.begin(key("a"), "1")
	opened, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitOpen))
	s.must(err)
	s.record(d, toolStep(0, "x", corebot.StepDone))
	w, err := s.waitAt(d, 1, pending(corebot.WaitSpan, corebot.WaitAwaited))
	s.must(err)
	s.sleeps(d, w)
	s.nothingDue()
	_, err = s.Ledger.Steer(s.ctx(), prompt(key("a"), "2"), d.Life, corebot.AuditEvent{},
		func(bool) *corebot.Message { return nil })
	s.must(err)
	if d = s.claim(); d.Message.ID != "1" {
		s.t.Errorf("message %s is due", d.Message.ID)
	}
	if ended := s.wantWait(w.ID, corebot.WaitGivenUp); ended.Reason == "" {
		s.t.Error("nobody is told why")
	}
	s.wantWait(opened.ID, corebot.WaitOpen)
}

func endLeavesNoWait(s *suite) {
	for i, o := range []corebot.Outcome{
		{Verb: corebot.Done, End: corebot.EndStopped}, answered(), deadLettered(),
	} {
		d := s.begin(key("a"), fmt.Sprint(i))
		w, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitAwaited))
		s.must(err)
		if i == 0 {
			s.sleeps(d, w)
			m := prompt(key("a"), "stop")
			m.Direction, m.Kind = corebot.Control, corebot.KindControl
			_, err := s.Ledger.Stop(s.ctx(), m, d.Life, callBy(person("ann")), func(bool) corebot.Message {
				return outbound(m.Key, corebot.KindNotice, "told", "stopping")
			})
			s.must(err)
			if ended := s.wantWait(w.ID, corebot.WaitGivenUp); ended.By != person("ann").String() {
				s.t.Errorf("it was given up by %q", ended.By)
			}
			if d = s.claim(); !d.Stopped {
				s.t.Error("the stop is not told")
			}
		}
		s.commit(d, corebot.Result{Outcome: o})
		s.wantWait(w.ID, corebot.WaitGivenUp)
		s.wantOver(s.words().Give(s.ctx(), w.ID, corebot.Word{}), corebot.WaitGivenUp)
		if o.Verb != corebot.Dead {
			continue
		}
		s.must(s.Letters.Replay(s.ctx(), d.Life, false))
		d = s.claim()
		if none, err := s.waitAt(d, 0, corebot.Pending{}); err != nil || none.ID != 0 {
			s.t.Errorf("a replay finds %+v, %v", none, err)
		}
		anew, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitAwaited))
		if err != nil || anew.ID == w.ID || anew.State != corebot.WaitAwaited {
			s.t.Errorf("a replay begins %+v, %v", anew, err)
		}
	}
}

func waitsAreLimited(s *suite) {
	d := s.begin(key("a"), "1")
	s.publish(prompt(key("b"), "2"))
	other := s.claim()
	w, err := s.waitAt(d, 0, pending(corebot.WaitWord, corebot.WaitAwaited))
	s.must(err)
	before := s.seen(other)
	one := pending(corebot.WaitWord, corebot.WaitAwaited)
	long := one
	for range corebot.MaxWaitFor + 1 {
		long.For += "x"
	}
	for i, over := range []corebot.Pending{one, one, long} {
		over.Limits = []corebot.WaitLimits{{PerSender: 1}, {Total: 1}, {}}[i]
		if _, err := s.waitAt(other, 0, over); !refused(err) {
			s.t.Errorf("limit %d: %v", i, err)
		}
	}
	if after := s.seen(other); after != before {
		s.t.Errorf("a refused wait left something:\n got %s\nwas %s", after, before)
	}
	s.must(s.words().Give(s.ctx(), w.ID, corebot.Word{}))
	one.Limits = corebot.WaitLimits{PerSender: 1, Total: 1}
	if _, err := s.waitAt(other, 0, one); err != nil {
		s.t.Errorf("after the first has ended: %v", err)
	}
	for i := range corebot.MaxWaits {
		w, err := s.waitAt(d, i+1, pending(corebot.WaitWord, corebot.WaitAwaited))
		if most := i == corebot.MaxWaits-1; refused(err) != most {
			s.t.Errorf("wait %d of the message: %v", i+2, err)
		}
		if err == nil {
			s.must(s.words().Give(s.ctx(), w.ID, corebot.Word{}))
		}
	}
}

// resumes sends a command about a wait, and gives what its notice was told.
func (s *suite) resumes(id int64, by corebot.AuditEvent) (r corebot.Receipt, told error) {
	s.t.Helper()
	m := prompt(key("a"), "/resume")
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	r, err := s.words().Command(s.ctx(), m, id, corebot.Word{Text: "go"}, by, func(err error) corebot.Message {
		told = err
		return outbound(m.Key, corebot.KindNotice, "told", "so be it")
	})
	s.must(err)
	return r, told
}

func commandGivesOnce(s *suite) {
	w := s.waiting("1", corebot.WaitSpan)
	for n := range 2 {
		r, told := s.resumes(w.ID, callBy(person("ann")))
		if r.Duplicate != (n == 1) || told != nil {
			s.t.Fatalf("time %d: %+v, told %v", n, r, told)
		}
	}
	over := s.wantWait(w.ID, corebot.WaitMet)
	if over.By != person("ann").String() || over.Word.Text != "go" {
		s.t.Errorf("it is over by %q with %+v", over.By, over.Word)
	}
	s.wantEvents("wait.begin", "wait.word")
	if out, found := s.due(corebot.OutboundPool("test")); !found || out.Message.ID != "told" {
		s.t.Errorf("the chat is told %+v", out.Message)
	}
}

func deniedCommandGivesNothing(s *suite) {
	w := s.waiting("1", corebot.WaitWord)
	by := callBy(person("eve"))
	by.Event, by.Outcome = "resume", corebot.OutcomeDenied
	s.resumes(w.ID, by)
	s.wantWait(w.ID, corebot.WaitAwaited)
	s.wantEvents("wait.begin", "resume")
}

func nonsenseEndsNothing(s *suite) {
	w := s.waiting("1", corebot.WaitWord)
	_, err := s.words().Wait(s.ctx(), w.ID+1)
	s.wantErr(err, corebot.ErrNotFound)
	s.wantErr(s.words().Give(s.ctx(), w.ID+1, corebot.Word{}), corebot.ErrNotFound)
	_, told := s.resumes(w.ID+1, callBy(person("ann")))
	s.wantErr(told, corebot.ErrNotFound)
	long := corebot.Word{Text: string(make([]byte, corebot.MaxWord+1))}
	s.wantErr(s.words().Give(s.ctx(), w.ID, long), corebot.ErrTooLarge)
	s.wantErr(s.words().Give(s.ctx(), w.ID, corebot.Word{Text: "\xff"}), corebot.ErrInvalid)
	s.wantWait(w.ID, corebot.WaitAwaited)
}
