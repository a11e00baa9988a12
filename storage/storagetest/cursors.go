package storagetest

import (
	"context"
	"errors"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

// Cursors stores the batches of messages that accounts of channels receive, and how far each account has come. It
// guarantees:
//
//   - An account that never received has the zero cursor, and each account has its own.
//   - A batch leaves its messages in their order and its cursor, also after a restart.
//   - A duplicate is no error, in the batch or of an earlier one.
//   - A message that breaks a rule of its own, its chat or its sender holds back neither others nor cursor.
//   - A batch without room for anybody leaves nothing, and the cursor stays.
//   - A batch that was received behind an older cursor leaves nothing.
//   - A batch that is repeated moves the cursor once, and a repeated message is accepted once.
type Cursors interface {
	Receive(ctx context.Context, b corebot.Batch, lim corebot.Limits) ([]corebot.Receipt, corebot.Cursor, error)
	Cursor(ctx context.Context, channel, account string) (corebot.Cursor, error)
}

var _ Cursors = bus.Store(nil)

func cursorSpecs() []spec {
	return []spec{
		{"An account that never received has the zero cursor, and each account has its own.", cursorsAreOfAccounts},
		{"A batch leaves its messages in their order and its cursor, also after a restart.", batchLeavesAll},
		{"A duplicate is no error, in the batch or of an earlier one.", duplicatesHoldNothingBack},
		{
			"A message that breaks a rule of its own, its chat or its sender holds back neither others nor cursor.",
			refusalsHoldNothingBack,
		},
		{"A batch without room for anybody leaves nothing, and the cursor stays.", noRoomLeavesNothing},
		{"A batch that was received behind an older cursor leaves nothing.", olderCursorLeavesNothing},
		{
			"A batch that is repeated moves the cursor once, and a repeated message is accepted once.",
			repeatedBatchIsOne,
		},
	}
}

func batch(c corebot.Cursor, messages ...corebot.Message) corebot.Batch {
	return corebot.Batch{Channel: "test", Account: "acc", Messages: messages, Cursor: c}
}

// receive stores a batch, and requires the error (nil: none) of each of its messages.
func (s *suite) receive(b corebot.Batch, lim corebot.Limits, want ...error) corebot.Cursor {
	s.t.Helper()
	receipts, next, err := s.Queue.Receive(s.ctx(), b, lim)
	s.must(err)
	if len(receipts) != len(want) {
		s.t.Fatalf("%d messages have %d receipts", len(want), len(receipts))
	}
	for i, r := range receipts {
		if !errors.Is(r.Err, want[i]) || r.Err == nil && r.Life == 0 {
			s.t.Fatalf("message %d: %+v, want %v", i, r, want[i])
		}
	}
	s.wantCursor(b.Account, next)
	return next
}

func (s *suite) wantCursor(account string, want corebot.Cursor) {
	s.t.Helper()
	got, err := s.Queue.Cursor(s.ctx(), "test", account)
	s.must(err)
	s.equal("the cursor", got, want)
}

func cursorsAreOfAccounts(s *suite) {
	s.wantCursor("acc", corebot.Cursor{})
	b := batch(corebot.Cursor{}.To("9"))
	b.Account = "another"
	other := s.receive(b, corebot.Limits{})
	if other.Position != "9" {
		s.t.Errorf("the cursor is %+v", other)
	}
	s.wantCursor("acc", corebot.Cursor{})
	s.receive(batch(corebot.Cursor{}.To("5")), corebot.Limits{})
	s.wantCursor("another", other)
}

func batchLeavesAll(s *suite) {
	k := key("a")
	c := s.receive(batch(corebot.Cursor{}.To("2"), prompt(k, "1"), prompt(key("b"), "other"), prompt(k, "2")),
		corebot.Limits{}, nil, nil, nil)
	s.reopen()
	s.wantCursor("acc", c)
	c = s.receive(batch(c.To(""), prompt(k, "3")), corebot.Limits{}, nil)
	s.reopen()
	s.wantCursor("acc", c)
	var got []string
	for {
		d, found := s.due(corebot.InboundPool)
		if !found {
			break
		}
		if d.Message.Key == k {
			got = append(got, d.Message.ID)
		}
		s.must(s.Queue.Settle(s.ctx(), d, answered()))
	}
	s.equal("the messages of the chat", got, []string{"1", "2", "3"})
}

func duplicatesHoldNothingBack(s *suite) {
	k := key("a")
	c := s.receive(batch(corebot.Cursor{}.To("1"), prompt(k, "1"), prompt(k, "1")), corebot.Limits{}, nil, nil)
	receipts, next, err := s.Queue.Receive(s.ctx(), batch(c.To("2"), prompt(k, "1"), prompt(k, "2")), corebot.Limits{})
	s.must(err)
	if !receipts[0].Duplicate || receipts[1].Duplicate || next.Position != "2" {
		s.t.Errorf("got %+v and %+v", receipts, next)
	}
	for range 2 {
		s.must(s.Queue.Settle(s.ctx(), s.claim(), answered()))
	}
	s.nothingDue()
}

func refusalsHoldNothingBack(s *suite) {
	k := key("a")
	other := prompt(k, "1")
	other.Parts = corebot.TextPart("another text")
	bob := prompt(key("c"), "bob's")
	bob.Sender = person("bob")
	c := s.receive(batch(corebot.Cursor{}.To("5"),
		prompt(k, "1"), other, prompt(k, "2"), prompt(k, "3"), prompt(key("b"), "4"), prompt(key("b"), "5"), bob),
		corebot.Limits{LaneDepth: 2, SenderDepth: 3},
		nil, corebot.ErrConflict, nil, corebot.ErrLaneFull, nil, corebot.ErrSenderFull, nil)
	s.reopen()
	s.wantCursor("acc", c)
}

func noRoomLeavesNothing(s *suite) {
	c := s.receive(batch(corebot.Cursor{}.To("1")), corebot.Limits{})
	k := key("a")
	full := batch(c.To("4"), prompt(k, "1"), prompt(k, "2"), prompt(k, "3"))
	for range 2 {
		_, _, err := s.Queue.Receive(s.ctx(), full, corebot.Limits{TotalDepth: 2})
		s.wantErr(err, corebot.ErrOverloaded)
		s.wantCursor("acc", c)
		s.nothingDue()
	}
	s.receive(full, corebot.Limits{TotalDepth: 3}, nil, nil, nil)
}

func olderCursorLeavesNothing(s *suite) {
	k := key("a")
	first := s.receive(batch(corebot.Cursor{}.To("1")), corebot.Limits{})
	now := s.receive(batch(first.To("2")), corebot.Limits{})
	for _, old := range []corebot.Cursor{{}, first, {Position: "2", Moves: now.Moves + 1}} {
		_, _, err := s.Queue.Receive(s.ctx(), batch(old.To("7"), prompt(k, "late")), corebot.Limits{})
		s.wantErr(err, corebot.ErrCursorMoved)
		s.wantCursor("acc", now)
		s.nothingDue()
	}
}

func repeatedBatchIsOne(s *suite) {
	k := key("a")
	b := batch(corebot.Cursor{}.To("1"), prompt(k, "1"))
	first := s.receive(b, corebot.Limits{}, nil)
	receipts, again, err := s.Queue.Receive(s.ctx(), b, corebot.Limits{})
	s.must(err)
	if !receipts[0].Duplicate {
		s.t.Errorf("the repeated message is %+v", receipts[0])
	}
	s.equal("the cursor", again, first)
	s.must(s.Queue.Settle(s.ctx(), s.claim(), answered()))
	s.nothingDue()
}
