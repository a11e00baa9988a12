package storagetest

import (
	"context"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
)

// Chats is what is kept of conversations beside their history. They guarantee:
//
//   - A chat that nobody knows is in its first session, and reading it makes it no known one.
//   - What is set for a chat stays over a restart, and a name stays until there is another.
//   - What is said of a chat holds in its threads, unless they have their own.
//   - A new session begins where a chat is known, and asks for the configured model again.
//   - Chats are listed page by page, each once.
//   - A situation tells what the lane of a chat does now.
//   - A change leaves one audit event that says who made it, and a refused one leaves none.
type Chats interface {
	channels.Register
	router.Situations
	operate.Chats
	operate.ChatSettings
	SetMemoryNotes(ctx context.Context, k corebot.Key, notes []corebot.MemoryNote, gone []string, event string) error
}

func chatSpecs() []spec {
	return []spec{
		{"A chat that nobody knows is in its first session, and reading it makes it no known one.", unknownChatIsNew},
		{"What is set for a chat stays over a restart, and a name stays until there is another.", settingsStay},
		{"What is said of a chat holds in its threads, unless they have their own.", threadsFollowTheirChat},
		{"A new session begins where a chat is known, and asks for the configured model again.", sessionsBegin},
		{"Chats are listed page by page, each once.", chatsAreListed},
		{"A situation tells what the lane of a chat does now.", situationTells},
		{"A change leaves one audit event that says who made it, and a refused one leaves none.", chatsAreNoted},
	}
}

func (s *suite) chat(k corebot.Key) corebot.Chat {
	s.t.Helper()
	c, err := s.Chats(operator()).Chat(s.ctx(), k)
	s.must(err)
	return c
}

func unknownChatIsNew(s *suite) {
	s.equal("the chat", s.chat(key("a")), corebot.Chat{Key: key("a"), Session: 1})
	now, err := s.Chats(operator()).Situation(s.ctx(), key("a"))
	s.must(err)
	s.equal("its situation", now, corebot.Situation{Session: 1})
	if all, _, err := s.Chats(operator()).Page(s.ctx(), "", "", 10); err != nil || len(all) != 0 {
		s.t.Errorf("listed are %+v, %v", all, err)
	}
	s.wantErr(s.Chats(operator()).Reset(s.ctx(), key("a")), corebot.ErrNotFound)
	s.wantErr(s.Chats(operator()).SetModel(s.ctx(), key("a"), "m"), corebot.ErrNotFound)
}

func settingsStay(s *suite) {
	chats, k := s.Chats(operator()), key("a")
	s.must(chats.Register(s.ctx(), k, true, "The first"))
	s.must(chats.SetQueueMode(s.ctx(), k, corebot.ModeSteer))
	s.must(chats.SetAccess(s.ctx(), k, corebot.DenyChat))
	s.must(chats.SetModel(s.ctx(), k, "big"))
	s.must(chats.SetThinking(s.ctx(), k, corebot.ThinkLow))
	s.must(chats.Register(s.ctx(), k, false, ""))
	s.reopen()
	got := s.chat(k)
	if got.CreatedAt.IsZero() {
		s.t.Error("nobody knows since when the chat is known")
	}
	got.CreatedAt = time.Time{}
	s.equal("the chat", got, corebot.Chat{
		Key: k, DisplayName: "The first", Session: 1, QueueMode: corebot.ModeSteer,
		Model: "big", Think: corebot.ThinkLow, Access: corebot.DenyChat,
	})
	s.wantErr(s.Chats(operator()).SetQueueMode(s.ctx(), k, "maybe"), corebot.ErrInvalid)
	s.wantErr(s.Chats(operator()).SetAccess(s.ctx(), k, "maybe"), corebot.ErrInvalid)
	s.wantErr(s.Chats(operator()).SetThinking(s.ctx(), k, "maybe"), corebot.ErrInvalid)
	s.must(s.Chats(operator()).SetQueueMode(s.ctx(), k, ""))
	s.must(s.Chats(operator()).SetAccess(s.ctx(), k, ""))
	if got = s.chat(k); got.QueueMode != "" || got.Access != "" {
		s.t.Errorf("the chat is %+v", got)
	}
}

func threadsFollowTheirChat(s *suite) {
	want := func(k corebot.Key, want corebot.Admission) {
		s.t.Helper()
		got, err := s.Chats(operator()).Admission(s.ctx(), k)
		s.must(err)
		s.equal("the admission in "+k.String(), got, want)
	}
	chats, own, other := s.Chats(operator()), thread("a", "1"), thread("a", "2")
	want(key("a"), corebot.Admission{})
	s.must(chats.Register(s.ctx(), key("a"), true, ""))
	s.must(chats.SetAccess(s.ctx(), key("a"), corebot.DenyChat))
	s.must(chats.SetAccess(s.ctx(), own, corebot.AllowChat))
	want(key("a"), corebot.Admission{Registered: true, Access: corebot.DenyChat})
	want(own, corebot.Admission{Registered: true, Access: corebot.AllowChat})
	want(other, corebot.Admission{Registered: true, Access: corebot.DenyChat})
	want(key("b"), corebot.Admission{})
	want(agentKey("other", "a"), corebot.Admission{})
	s.must(chats.SetAccess(s.ctx(), key("a"), ""))
	want(other, corebot.Admission{Registered: true})
	if got := s.chat(own); got.Registered {
		s.t.Errorf("the thread is %+v", got)
	}
}

func sessionsBegin(s *suite) {
	chats, k := s.Chats(operator()), key("a")
	s.must(chats.Register(s.ctx(), k, true, ""))
	s.must(chats.SetModel(s.ctx(), k, "big"))
	s.must(chats.SetThinking(s.ctx(), k, corebot.ThinkHigh))
	wantChosen := func(session int64, model string, think corebot.Thinking) {
		s.t.Helper()
		found, _, err := s.History.Recall(s.ctx(), corebot.Delivery{Message: corebot.Message{Key: k}}, 1)
		s.must(err)
		now, err := chats.Situation(s.ctx(), k)
		s.must(err)
		if c := s.chat(k); c.Session != session || c.Model != model || found.Model != model || now.Model != model ||
			now.Session != session {
			s.t.Errorf("session %d asks for %q, %q and %q; want session %d and %q", c.Session, c.Model, found.Model,
				now.Model, session, model)
		}
		if c := s.chat(k); c.Think != think || found.Think != think || now.Think != think {
			s.t.Errorf("session %d thinks %q, %q and %q; want %q", c.Session, c.Think, found.Think, now.Think, think)
		}
	}
	wantChosen(1, "big", corebot.ThinkHigh)
	s.must(chats.Reset(s.ctx(), k))
	wantChosen(2, "", "")
	s.must(chats.SetThinking(s.ctx(), k, corebot.ThinkOff))
	wantChosen(2, "", corebot.ThinkOff) // the model of the first session does not come back with it
}

func chatsAreListed(s *suite) {
	chats := s.Chats(operator())
	for _, c := range strings.Split("a b c d e f g", " ") {
		s.must(chats.Register(s.ctx(), key(c), true, ""))
	}
	s.must(chats.Register(s.ctx(), corebot.Key{Agent: "main", Channel: "elsewhere", Chat: "x"}, true, ""))
	for channel, want := range map[string]int{"": 8, "test": 7, "nowhere": 0} {
		seen := map[corebot.Key]bool{}
		for after, pages := "", 0; after != "" || pages == 0; pages++ {
			page, next, err := chats.Page(s.ctx(), channel, after, 3)
			s.must(err)
			for _, c := range page {
				if seen[c.Key] || len(page) > 3 {
					s.t.Fatalf("chat %s came twice, or too many at once", c.Key)
				}
				seen[c.Key] = true
			}
			after = next
		}
		if len(seen) != want {
			s.t.Errorf("channel %q: %d chats, want %d", channel, len(seen), want)
		}
	}
}

func situationTells(s *suite) {
	now := func() corebot.Situation {
		s.t.Helper()
		got, err := s.Chats(operator()).Situation(s.ctx(), key("a"))
		s.must(err)
		return got
	}
	s.publish(prompt(key("a"), "1"))
	s.publish(prompt(key("a"), "2"))
	if n := now(); n.Running || n.Waiting != 2 || n.Why != "" {
		s.t.Errorf("while both wait: %+v", n)
	}
	d := s.claim()
	if n := now(); !n.Running || n.Waiting != 1 || !n.RunningSince.Equal(d.ClaimedAt) {
		s.t.Errorf("while the first runs: %+v", n)
	}
	asked, err := s.askFrom(d, 0, 0)
	s.must(err)
	s.waits(d, asked)
	if n := now(); n.Running || n.Waiting != 2 || n.Why != corebot.AwaitingApproval || len(n.Awaited) != 3 ||
		!n.WakeAt.Equal(asked.ExpiresAt.Truncate(moment)) {
		s.t.Errorf("while it waits for an approval: %+v", n)
	}
	s.resolve(asked.ID, corebot.ApprovalDenied)
	s.commit(s.claim(), corebot.Result{Outcome: answered()})
	back := time.Now().Add(time.Hour)
	s.commit(s.claim(), corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Defer, At: back, Reason: "chat budget"}})
	if n := now(); n.Waiting != 0 || n.Deferred != 1 || !n.BackAt.Equal(back) || len(n.Awaited) != 0 {
		s.t.Errorf("while it is deferred: %+v", n)
	}
}

// wantNotes compares what the audit says of changes, oldest first: event, entry, conversation and note.
func (s *suite) wantNotes(want ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.events() {
		got = append(got, strings.Join([]string{e.Event, string(e.Entry), e.Key.String(), e.Args}, "|"))
		if e.Outcome != corebot.OutcomeSuccess {
			s.t.Errorf("%s ended as %q", e.Event, e.Outcome)
		}
	}
	s.equal("the audit", got, want)
}

func chatsAreNoted(s *suite) {
	chats, k := s.Chats(operator()), key("a")
	s.wantErr(chats.Reset(s.ctx(), k), corebot.ErrNotFound)
	s.wantErr(chats.SetModel(s.ctx(), k, "m"), corebot.ErrNotFound)
	s.wantErr(chats.SetAccess(s.ctx(), k, "maybe"), corebot.ErrInvalid)
	s.must(s.Chats(callBy(person("ann"))).Register(s.ctx(), k, true, "A"))
	s.must(chats.SetAccess(s.ctx(), k, corebot.DenyChat))
	s.must(chats.SetQueueMode(s.ctx(), k, corebot.ModeSteer))
	s.must(chats.SetModel(s.ctx(), k, "m"))
	s.must(chats.SetThinking(s.ctx(), k, corebot.ThinkLow))
	s.must(chats.Reset(s.ctx(), k))
	s.wantNotes(
		`chat.register|direct|main:test::room|{"chat":"main:test::a","name":"A","registered":true}`,
		`chat.access|operator|main:test::a|{"access":"deny","chat":"main:test::a"}`,
		`chat.queue_mode|operator|main:test::a|{"chat":"main:test::a","mode":"steer"}`,
		`chat.model|operator|main:test::a|{"chat":"main:test::a","model":"m"}`,
		`chat.think|operator|main:test::a|{"chat":"main:test::a","think":"low"}`,
		`chat.reset|operator|main:test::a|{"chat":"main:test::a","session":2}`,
	)
}
