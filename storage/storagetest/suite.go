package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// suite is one test's store, and the words that the tests are written in.
type suite struct {
	Store
	t    *testing.T
	open Open
	dir  string
}

func newSuite(t *testing.T, open Open) *suite {
	s := &suite{t: t, open: open, dir: t.TempDir()}
	s.reopen()
	t.Cleanup(func() {
		problems, err := s.Problems(context.Background())
		if err != nil || len(problems) > 0 {
			t.Errorf("the store finds fault with itself: %v %v", problems, err)
		}
		s.must(s.Close())
	})
	return s
}

// reopen is a crash and a new process.
func (s *suite) reopen() {
	s.t.Helper()
	if s.Store.Close != nil {
		s.must(s.Close())
	}
	store, err := s.open(s.dir)
	s.must(err)
	s.Store = store
}

const (
	lease = 30 * time.Second
	// moment is the smallest step of a store's clock: what happens a moment later sorts behind.
	moment = time.Millisecond
)

func (s *suite) ctx() context.Context { return s.t.Context() }

func (s *suite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) wantErr(err, want error) {
	s.t.Helper()
	if !errors.Is(err, want) {
		s.t.Fatalf("got %v, want %v", err, want)
	}
}

// equal compares what is and what should be as JSON, in which a pointer is what it points to.
func (s *suite) equal(what string, got, want any) {
	s.t.Helper()
	if g, w := s.spell(got), s.spell(want); g != w {
		s.t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func (s *suite) spell(v any) string {
	s.t.Helper()
	b, err := json.Marshal(v)
	s.must(err)
	return string(b)
}

func key(chat string) corebot.Key {
	return corebot.Key{Agent: corebot.DefaultAgent, Channel: "test", Chat: chat}
}

func thread(chat, thread string) corebot.Key {
	k := key(chat)
	k.Thread = thread
	return k
}

func agentKey(agent, chat string) corebot.Key {
	k := key(chat)
	k.Agent = agent
	return k
}

func person(id string) corebot.Principal { return corebot.Principal{Channel: "test", ID: id} }

// operator gives a command on the machine.
func operator() corebot.AuditEvent {
	return corebot.AuditEvent{Entry: corebot.EntryOperator, Principal: corebot.Principal{ID: "7"}}
}

// callBy is a tool call in a turn of a person, as the audit names it.
func callBy(p corebot.Principal) corebot.AuditEvent {
	return corebot.AuditEvent{
		Tool: "a.tool", Key: key("room"), Principal: p, Role: corebot.RoleAdmin, Entry: corebot.EntryDirect,
	}
}

// prompt is a message of ann whose text follows from its id.
func prompt(k corebot.Key, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: k, Sender: person("ann"),
		Parts: corebot.TextPart("text of " + id),
	}
}

func outbound(k corebot.Key, kind corebot.Kind, id, text string) corebot.Message {
	return corebot.Message{ID: id, Direction: corebot.Outbound, Kind: kind, Key: k, Parts: corebot.TextPart(text)}
}

func (s *suite) publish(m corebot.Message) int64 {
	s.t.Helper()
	r, err := s.Queue.Publish(s.ctx(), []corebot.Message{m}, corebot.Limits{})
	s.must(err)
	s.must(r[0].Err)
	return r[0].Life
}

// due claims the message that is due at this moment, if there is one.
func (s *suite) due(pool corebot.Pool) (d corebot.Delivery, found bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx(), moment)
	defer cancel()
	ds, err := s.Queue.Claim(ctx, pool, 1, corebot.ClaimOptions{Lease: lease})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		s.t.Fatal(err)
	}
	if len(ds) == 0 {
		return d, false
	}
	return ds[0], true
}

// claim takes the inbound message that must be due now.
func (s *suite) claim() corebot.Delivery {
	s.t.Helper()
	d, found := s.due(corebot.InboundPool)
	if !found {
		s.t.Fatal("no message is due")
	}
	return d
}

// nothingDue requires that no inbound message can be claimed now.
func (s *suite) nothingDue() {
	s.t.Helper()
	if d, found := s.due(corebot.InboundPool); found {
		s.t.Fatalf("message %s is due", d.Message.ID)
	}
}

// begin publishes a message of a conversation and claims it.
func (s *suite) begin(k corebot.Key, id string) corebot.Delivery {
	s.t.Helper()
	s.publish(prompt(k, id))
	d := s.claim()
	if d.Message.ID != id || d.Message.Key != k {
		s.t.Fatalf("claimed %s of %s, want %s", d.Message.ID, d.Message.Key, id)
	}
	return d
}

// steal lets a lease pass, and has a second worker claim the message.
func (s *suite) steal(d corebot.Delivery) corebot.Delivery {
	s.t.Helper()
	time.Sleep(lease)
	again := s.claim()
	if again.Life != d.Life || again.Epoch <= d.Epoch {
		s.t.Fatalf("claimed life %d, epoch %d, behind %d, %d", again.Life, again.Epoch, d.Life, d.Epoch)
	}
	return again
}

func (s *suite) commit(d corebot.Delivery, r corebot.Result) {
	s.t.Helper()
	s.must(s.Ledger.Commit(s.ctx(), d, r))
}

// turn is a whole turn of a conversation, which is answered.
func (s *suite) turn(k corebot.Key, id string, r corebot.Result) corebot.Delivery {
	s.t.Helper()
	d := s.begin(k, id)
	r.Outcome = answered()
	s.commit(d, r)
	return d
}

func answered() corebot.Outcome { return corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered} }

// deadLettered ends a message with a permanent failure.
func deadLettered() corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Dead, Reason: "permanent", Error: "it broke"}
}

func retry() corebot.Outcome {
	return corebot.Outcome{Verb: corebot.RetryAt, At: time.Now(), Error: "not now"}
}

func spent(model string, in, out int64) corebot.ModelUsage {
	return corebot.ModelUsage{Model: model, Usage: corebot.Usage{InputTokens: in, OutputTokens: out}}
}

func (s *suite) life(id int64) corebot.Life {
	s.t.Helper()
	l, err := s.Lives.Get(s.ctx(), id)
	s.must(err)
	return l
}

// events are all of the audit, oldest first.
func (s *suite) events() []corebot.AuditEvent {
	s.t.Helper()
	out, err := s.Audit.List(s.ctx(), corebot.AuditFilter{Decisions: true, Limit: 1000})
	s.must(err)
	slices.Reverse(out)
	return out
}

// wantEvents compares the kinds of all events, oldest first.
func (s *suite) wantEvents(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, e := range s.events() {
		got = append(got, e.Event)
	}
	s.equal("the audit", got, want)
}

func (s *suite) use(f corebot.UsageFilter) corebot.UsageTotals {
	s.t.Helper()
	if f.To == "" {
		f.From, f.To = "0000-01-01", "9999-12-31"
	}
	u, err := s.Books.Use(s.ctx(), f)
	s.must(err)
	return u
}

// seen is all that the contracts show of a message and its conversation.
func (s *suite) seen(d corebot.Delivery) string {
	s.t.Helper()
	k := d.Message.Key
	said, err := s.Sayings.Before(s.ctx(), k, "", 1000)
	s.must(err)
	recalled, _, err := s.History.Recall(s.ctx(), d, 10)
	s.must(err)
	asked, _, err := s.Approvals(operator()).Page(s.ctx(), true, "", 1000)
	s.must(err)
	chat, err := s.Chats(operator()).Chat(s.ctx(), k)
	s.must(err)
	grants, _, err := s.Grants(operator()).Page(s.ctx(), "", 1000)
	s.must(err)
	return s.spell([]any{s.life(d.Life), said, recalled, asked, chat, grants, s.use(corebot.UsageFilter{}), s.events()})
}
