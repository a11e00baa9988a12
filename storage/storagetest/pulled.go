package storagetest

import (
	"sync"

	"github.com/corebot/corebot"
)

// pulls are the clients of one channel that fetch their messages from the mailbox. It counts the messages of which
// each conversation was told.
type pulls struct {
	channel string

	mu     sync.Mutex
	posted map[corebot.Key]int
}

func (p *pulls) Pulled(k corebot.Key) bool { return k.Channel == p.channel }

func (p *pulls) Posted(k corebot.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted[k]++
}

func (p *pulls) told(k corebot.Key) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posted[k]
}

// pull makes the clients of the tests' channel fetch their messages from now on.
func (s *suite) pull() *pulls {
	p := &pulls{channel: "test", posted: map[corebot.Key]int{}}
	s.MailFor(p)
	return p
}

func pulledReplyRidesOnItsTurn(s *suite) {
	k := key("a")
	told := s.pull()
	d := s.turn(k, "1", everything(k))
	s.after(k, 0, 10, "first", "second")
	s.nothingOutbound()
	if told.told(k) != 2 {
		s.t.Errorf("the clients were told of %d messages, not 2", told.told(k))
	}
	replies := s.life(d.Life).Replies
	if len(replies) != 2 {
		s.t.Fatalf("the turn has the replies %+v", replies)
	}
	for _, r := range replies {
		if r.End != corebot.EndSent || r.EndedAt.IsZero() || r.EndedAt != r.PublishedAt || r.Cause.Life != d.Life {
			s.t.Errorf("the life of a reply is %+v", r)
		}
	}
	s.reopen()
	s.after(k, 0, 10, "first", "second")
	s.nothingOutbound()
}

func pulledReplyFailsWithItsTurn(s *suite) {
	k := key("a")
	told := s.pull()
	s.publish(outbound(k, corebot.KindReply, "second", "another text under the same id"))
	d := s.begin(k, "1")
	s.wantErr(s.Ledger.Commit(s.ctx(), d, everything(k)), corebot.ErrConflict)
	s.after(k, 0, 10, "second")
	stale := d
	s.steal(stale)
	s.wantErr(s.Ledger.Commit(s.ctx(), stale, everything(k)), corebot.ErrLeaseLost)
	s.after(k, 0, 10, "second")
	if told.told(k) != 1 {
		s.t.Errorf("the clients were told of %d messages, not 1", told.told(k))
	}
}

func pulledIdIsTakenOnce(s *suite) {
	k := key("a")
	told := s.pull()
	m := outbound(k, corebot.KindNotice, "n", "text")
	life := s.publish(m)
	for range 2 {
		r, err := s.Queue.Publish(s.ctx(), []corebot.Message{m}, corebot.Limits{})
		s.must(err)
		if !r[0].Duplicate || r[0].Life != life {
			s.t.Errorf("published again it is %+v", r[0])
		}
		other := outbound(k, corebot.KindNotice, "n", "another text")
		r, err = s.Queue.Publish(s.ctx(), []corebot.Message{other}, corebot.Limits{})
		s.must(err)
		s.wantErr(r[0].Err, corebot.ErrConflict)
		s.after(k, 0, 10, "n")
		if told.told(k) != 1 {
			s.t.Errorf("the clients were told %d times", told.told(k))
		}
		s.reopen()
		told = s.pull()
		told.posted[k] = 1
	}
}

func pulledReplyOvertakesNothing(s *suite) {
	k := key("a")
	s.publish(outbound(k, corebot.KindReply, "1", "waits since before the chat was pulled"))
	s.pull()
	s.publish(outbound(k, corebot.KindReply, "2", "waits behind it"))
	s.publish(outbound(key("b"), corebot.KindReply, "other", "of a chat where nothing waits"))
	s.after(k, 0, 10)
	s.after(key("b"), 0, 10, "other")
	for _, want := range []string{"1", "2"} {
		d, found := s.due(corebot.OutboundPool("test"))
		if !found || d.Message.ID != want {
			s.t.Fatalf("%+v is claimed, not %s", d.Message, want)
		}
		s.must(s.Mailbox.Post(s.ctx(), d.Message))
		if want == "2" { // the lane is empty only after the settle
			s.publish(outbound(k, corebot.KindReply, "3", "while 2 is sent"))
		}
		s.must(s.Queue.Settle(s.ctx(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	d, found := s.due(corebot.OutboundPool("test"))
	if !found || d.Message.ID != "3" {
		s.t.Fatalf("%+v is claimed, not 3", d.Message)
	}
	s.must(s.Mailbox.Post(s.ctx(), d.Message))
	s.must(s.Queue.Settle(s.ctx(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	s.publish(outbound(k, corebot.KindReply, "4", "into the mailbox at once"))
	s.nothingOutbound()
	s.after(k, 0, 10, "1", "2", "3", "4")
	s.MailFor(&pulls{channel: "no channel"})
	s.publish(outbound(k, corebot.KindReply, "5", "of a chat that is pushed to again"))
	if d, found := s.due(corebot.OutboundPool("test")); !found || d.Message.ID != "5" {
		s.t.Errorf("%+v is claimed, not 5", d.Message)
	}
}

// nothingOutbound requires that no outbound message waits.
func (s *suite) nothingOutbound() {
	s.t.Helper()
	if d, found := s.due(corebot.OutboundPool("test")); found {
		s.t.Errorf("%s waits to be sent", d.Message.ID)
	}
}
