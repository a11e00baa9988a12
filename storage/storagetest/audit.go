package storagetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Audit is the trail of what was allowed, denied and done. It guarantees:
//
//   - An event comes back whole, with the time of its writing.
//   - Events are listed newest first, as many as are wanted, and only those that the filter means.
//   - A decision is listed only where decisions are wanted.
//   - The chain is whole over operations that fail and over restarts, and has every event.
//   - A head that was noted before is a part of the chain, and no other one is.
type Audit interface {
	channels.Trail
	List(ctx context.Context, f corebot.AuditFilter) ([]corebot.AuditEvent, error)
	Verify(ctx context.Context, p corebot.AuditProof) (corebot.AuditChain, error)
}

func auditSpecs() []spec {
	return []spec{
		{"An event comes back whole, with the time of its writing.", eventComesBack},
		{
			"Events are listed newest first, as many as are wanted, and only those that the filter means.",
			eventsAreFiltered,
		},
		{"A decision is listed only where decisions are wanted.", decisionsAreWanted},
		{"The chain is whole over operations that fail and over restarts, and has every event.", chainIsWhole},
		{"A head that was noted before is a part of the chain, and no other one is.", headsAreKnown},
	}
}

func (s *suite) note(e corebot.AuditEvent) {
	s.t.Helper()
	s.must(s.Audit.Note(s.ctx(), e))
}

func eventComesBack(s *suite) {
	k := corebot.Key{Agent: "main", Channel: "test", Account: "bot", Chat: "a", Thread: "1"}
	want := corebot.AuditEvent{
		At: time.UnixMilli(1), Event: "tool.result", Tool: "fs.read", Key: k,
		Principal: corebot.Principal{Channel: "test", Account: "bot", ID: "7"},
		Role:      corebot.RoleAdmin, Entry: corebot.EntryDirect, Outcome: corebot.OutcomeDenied,
		Rule: "open", Args: `{"ü":"<>"}`,
		Duration: 5 * time.Millisecond, StepID: "m/1/0",
	}
	time.Sleep(time.Hour)
	at := time.Now()
	s.note(want)
	got := s.events()[0]
	if !got.At.Equal(at) || got.ID == 0 {
		s.t.Errorf("event %d is of %v, and was written at %v", got.ID, got.At, at)
	}
	s.equal("the seal", got.Seal, corebot.SealArgs(got.Seal.Salt, want.Args))
	got.ID, got.At, got.Seal = want.ID, want.At, want.Seal
	s.equal("the event", got, want)
}

func eventsAreFiltered(s *suite) {
	start := time.Now()
	for i, tool := range []string{"fs.read", "fs.write", "fs.read"} {
		e := callBy(person("7"))
		e.Event, e.Tool, e.Outcome, e.Key = "tool.result", tool, corebot.OutcomeSuccess, key("one")
		if i == 2 {
			e.Key, e.Outcome = thread("two", "1"), corebot.OutcomeDenied
		}
		s.note(e)
		time.Sleep(time.Minute)
	}
	for _, c := range []struct {
		filter corebot.AuditFilter
		want   string
	}{
		{corebot.AuditFilter{}, "two fs.read, one fs.write, one fs.read"},
		{corebot.AuditFilter{Limit: 2}, "two fs.read, one fs.write"},
		{corebot.AuditFilter{Tool: "fs.read"}, "two fs.read, one fs.read"},
		{corebot.AuditFilter{Chat: "one", Tool: "fs.read"}, "one fs.read"},
		{corebot.AuditFilter{Tool: "tool.result", Chat: "two"}, "two fs.read"},
		{corebot.AuditFilter{Tool: "results", Change: "tool.result", Chat: "two"}, "two fs.read"},
		{corebot.AuditFilter{Tool: "results"}, ""},
		{corebot.AuditFilter{Chat: "two"}, "two fs.read"},
		{corebot.AuditFilter{Key: thread("two", "1")}, "two fs.read"},
		{corebot.AuditFilter{Key: key("two")}, ""},
		{corebot.AuditFilter{Key: agentKey("other", "one")}, ""},
		{corebot.AuditFilter{Agent: "other"}, ""},
		{corebot.AuditFilter{Agent: corebot.DefaultAgent, Limit: 1}, "two fs.read"},
		{corebot.AuditFilter{Outcome: corebot.OutcomeDenied}, "two fs.read"},
		{corebot.AuditFilter{Sender: "7", Limit: 1}, "two fs.read"},
		{corebot.AuditFilter{Sender: "8"}, ""},
		{corebot.AuditFilter{Channel: "webhook"}, ""},
		{corebot.AuditFilter{Since: start.Add(time.Minute)}, "two fs.read, one fs.write"},
		{corebot.AuditFilter{Until: start.Add(time.Minute)}, "one fs.read"},
	} {
		events, err := s.Audit.List(s.ctx(), c.filter)
		s.must(err)
		var got []string
		for _, e := range events {
			got = append(got, e.Key.Chat+" "+e.Tool)
		}
		if strings.Join(got, ", ") != c.want {
			s.t.Errorf("%+v gives %q, want %s", c.filter, got, c.want)
		}
	}
}

func decisionsAreWanted(s *suite) {
	for _, event := range []string{"tool.decision", "tool.result"} {
		e := callBy(person("ann"))
		e.Event = event
		s.note(e)
	}
	s.wantEvents("tool.decision", "tool.result")
	if some, err := s.Audit.List(s.ctx(), corebot.AuditFilter{}); err != nil || len(some) != 1 ||
		some[0].Event != "tool.result" {
		s.t.Errorf("listed are %+v, %v", some, err)
	}
}

// noting asks whether a head that was noted is on the chain.
func noting(h corebot.AuditHead) corebot.AuditProof {
	return corebot.AuditProof{Heads: []corebot.PublishedHead{{AuditHead: h}}}
}

func (s *suite) verify(noted *corebot.AuditHead) corebot.AuditChain {
	var proof corebot.AuditProof
	if noted != nil {
		proof = noting(*noted)
	}
	s.t.Helper()
	c, err := s.Audit.Verify(s.ctx(), proof)
	s.must(err)
	return c
}

func chainIsWhole(s *suite) {
	s.equal("a new trail", s.verify(nil), corebot.AuditChain{})
	s.note(callBy(person("ann")))
	k := key("a")
	s.publish(outbound(k, corebot.KindReply, "second", "another text under the same id"))
	d := s.begin(k, "1")
	// an event of it was written and taken back
	s.wantErr(s.Ledger.Commit(s.ctx(), d, everything(k)), corebot.ErrConflict)
	s.note(callBy(person("ann")))
	s.reopen()
	s.note(callBy(person("ann")))
	c := s.verify(nil)
	if c.Events != 3 || c.Past != 0 || len(s.events()) != 3 || len(c.Head.Hash) != 64 {
		s.t.Errorf("the trail is %+v", c)
	}
}

func headsAreKnown(s *suite) {
	var heads []corebot.AuditHead
	for range 3 {
		s.note(callBy(person("ann")))
		heads = append(heads, s.verify(nil).Head)
	}
	s.reopen()
	for _, h := range heads {
		s.verify(&h)
	}
	other, later := heads[1], heads[2]
	other.Hash, later.Event = heads[0].Hash, later.Event+1
	for _, h := range []corebot.AuditHead{other, later} {
		broken := (*corebot.BrokenChain)(nil)
		if _, err := s.Audit.Verify(s.ctx(), noting(h)); !errors.As(err, &broken) || broken.Event != h.Event {
			s.t.Errorf("the head %v: %v", h, err)
		}
	}
}
