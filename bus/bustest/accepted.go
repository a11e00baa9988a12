package bustest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

func acceptedSpecs() []spec {
	return []spec{
		{"what was accepted is there after a restart", acceptedSurvivesRestart},
		{"a message comes out as it went in", messageIsWhole},
		{
			"a duplicate changes nothing before, while and after its first runs, and when that is dead",
			duplicateAtAnyTime,
		},
		{"the same id with another body is a conflict at any time", conflictAtAnyTime},
		{"the sender's display name makes no other body", displayNameIsNoConflict},
		{"an id belongs to its direction and key", idsAreScoped},
		{"the same ids published many times at once live once each", publishedManyTimesAtOnce},
		{"bytes that are not UTF-8 are replaced, and damage nothing", strangeBytesAreReplaced},
		{"a message that cannot be stored as it is, is refused", unfitMessagesAreRefused},
	}
}

func acceptedSurvivesRestart(s *suite) {
	s.publish("a", "1")
	s.reopen()
	s.claim("1")
}

func messageIsWhole(s *suite) {
	m := prompt("<a&b>\u2028", "1 ⅷ")
	m.Key.Account, m.Key.Thread = "acc:ount", "th%re/ad"
	m.SenderName = "Zoë"
	m.Metadata = corebot.Texts(map[string]string{"a": "1", "": "", "ü": "\x7f<>"})
	m.Metadata["deep"] = json.RawMessage(`{"a":[1,null,"x"]}`)
	m.Parts = append(m.Parts, corebot.Part{
		Type: corebot.PartImage, Hash: "ff00", Name: "cat.png",
		MediaType: "image/png",
	})
	_, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	d := s.claim(m.ID)
	got := d.Message
	got.CreatedAt = time.Time{}
	if d.Damaged != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", m) {
		s.t.Fatalf("damaged: %v\n got %#v\nwant %#v", d.Damaged, got, m)
	}
}

func duplicateAtAnyTime(s *suite) {
	life := s.publish("a", "1")
	s.publishAgain("a", "1", life)
	d := s.claim("1")
	s.publishAgain("a", "1", life)
	s.settle(d, retryIn(time.Minute))
	s.publishAgain("a", "1", life)
	s.reopen()
	time.Sleep(time.Minute)
	d = s.claim("1")
	s.settle(d, answered())
	s.publishAgain("a", "1", life)
	s.nothingReady()

	life = s.publish("a", "2")
	s.settle(s.claim("2"), given("permanent"))
	s.publishAgain("a", "2", life)
	s.nothingReady()
}

func conflictAtAnyTime(s *suite) {
	other := prompt("a", "1")
	other.Parts = corebot.TextPart("another text")
	refused := func() {
		s.t.Helper()
		before := s.census()
		_, err := s.bus.Publish(s.t.Context(), other)
		s.wantErr(err, corebot.ErrConflict)
		s.unchanged(before)
	}
	s.publish("a", "1")
	refused()
	d := s.claim("1")
	refused()
	s.settle(d, answered())
	refused()
	other.Parts, other.Sender.ID = prompt("a", "1").Parts, "somebody else"
	refused()
}

func displayNameIsNoConflict(s *suite) {
	s.publish("a", "1")
	m := prompt("a", "1")
	m.SenderName = "Changed"
	r, err := s.bus.Publish(s.t.Context(), m)
	s.must(err)
	if !r.Duplicate {
		s.t.Fatal("a changed display name made another message")
	}
}

func idsAreScoped(s *suite) {
	base := prompt("a", "1")
	var variants []corebot.Message
	for _, change := range []func(*corebot.Message){
		func(m *corebot.Message) {},
		func(m *corebot.Message) { m.Direction, m.Kind = corebot.Outbound, corebot.KindReply },
		func(m *corebot.Message) { m.Key.Agent = "second" },
		func(m *corebot.Message) { m.Key.Channel = "other" },
		func(m *corebot.Message) { m.Key.Account = "1" },
		func(m *corebot.Message) { m.Key.Chat = "A" },
		func(m *corebot.Message) { m.Key.Thread = "1" },
		func(m *corebot.Message) { m.Key.Account, m.Key.Chat = "a", "1" },
	} {
		m := base
		change(&m)
		variants = append(variants, m)
	}
	for _, m := range variants {
		r, err := s.bus.Publish(s.t.Context(), m)
		s.must(err)
		if r.Duplicate {
			s.t.Fatalf("%v %v is taken for another conversation", m.Direction, m.Key)
		}
	}
	if got := s.ready(corebot.InboundPool, 100); len(got) != len(variants)-1 {
		s.t.Fatalf("%d inbound lanes are ready, want %d", len(got), len(variants)-1)
	}
	if got := s.ready(corebot.OutboundPool("test"), 100); len(got) != 1 {
		s.t.Fatalf("%d outbound lanes are ready, want 1", len(got))
	}
}

func publishedManyTimesAtOnce(s *suite) {
	const ids, publishers = 500, 16
	var offers []corebot.Message
	for i := range ids {
		for range 1 + i%20 {
			offers = append(offers, prompt(fmt.Sprint("chat", i%7), fmt.Sprint(i)))
		}
	}
	rand.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
	var mu sync.Mutex
	accepted := map[string]int{}
	lives := map[string]int64{}
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := p; i < len(offers); i += publishers {
				m := offers[i]
				r, err := s.bus.Publish(s.t.Context(), m)
				mu.Lock()
				if err != nil {
					s.t.Errorf("publish %s: %v", m.ID, err)
				} else if !r.Duplicate {
					accepted[m.ID]++
				}
				if first := lives[m.ID]; first != 0 && first != r.Life {
					s.t.Errorf("message %s has lives %d and %d", m.ID, first, r.Life)
				}
				lives[m.ID] = r.Life
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range ids {
		if n := accepted[fmt.Sprint(i)]; n != 1 {
			s.t.Errorf("message %d was accepted %d times", i, n)
		}
	}
	if c := s.census(); c.Lives != ids || c.Waiting != ids {
		s.t.Errorf("the store has %+v, want %d of each", c, ids)
	}
}

func strangeBytesAreReplaced(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	m := reply("a", "1/1/0")
	m.Parts, m.Metadata = corebot.TextPart("caf\xe9"), corebot.Texts(map[string]string{"\xff": "\xfe", "k": "\ufffd"})
	s.must(s.Ledger.Commit(s.t.Context(), d, corebot.Result{Outcome: answered(), Replies: []corebot.Message{m}}))
	got := s.ready(corebot.OutboundPool("test"), 1)
	if len(got) != 1 || got[0].Damaged != nil || got[0].Message.Text() != "caf\ufffd" ||
		string(got[0].Message.Metadata["k"]) != "\"\ufffd\"" {
		s.t.Fatalf("the channel gets %+v", got)
	}
}

func unfitMessagesAreRefused(s *suite) {
	before := s.census()
	for want, spoil := range map[string]func(*corebot.Message){
		"no id":             func(m *corebot.Message) { m.ID = "" },
		"no chat":           func(m *corebot.Message) { m.Key.Chat = "" },
		"text not UTF-8":    func(m *corebot.Message) { m.Parts = corebot.TextPart("a\xff") },
		"no direction":      func(m *corebot.Message) { m.Direction = 0 },
		"unknown direction": func(m *corebot.Message) { m.Direction = 9 },
		"control":           func(m *corebot.Message) { m.Direction = corebot.Control },
	} {
		m := prompt("a", "1")
		spoil(&m)
		if _, err := s.bus.Publish(s.t.Context(), m); err == nil {
			s.t.Errorf("%s: accepted", want)
		}
	}
	s.unchanged(before)
}
