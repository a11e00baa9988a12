package channels

import (
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// fill takes places for chats of an account until there is none, and returns the sends.
func fill(p *places, account string, attempt int) (sends []*send) {
	for i := 0; ; i++ {
		d := corebot.Delivery{Attempt: attempt, Message: corebot.Message{Key: corebot.Key{
			Account: account,
			Chat:    fmt.Sprint(i),
		}}}
		s, _ := p.take(d, time.Minute, time.Now())
		if s == nil {
			return sends
		}
		sends = append(sends, s)
	}
}

func TestNeitherAnAccountNorItsFailingChatsGetEveryPlace(t *testing.T) {
	p := newPlaces()
	failing := fill(p, "a", 2)
	if n := len(failing); n != sendPlaces/2 {
		t.Errorf("the failing chats of one account have %d places", n)
	}
	healthy := fill(p, "a", 1)
	if n := len(failing) + len(healthy); n != sendPlaces*3/4 {
		t.Errorf("one account has %d places", n)
	}
	sends := append(failing, healthy...)
	for i := range 4 {
		account := fmt.Sprint("other ", i)
		got := fill(p, account, 1)
		if sends = append(sends, got...); len(got) == 0 {
			t.Fatalf("%s finds no place", account)
		}
	}
	now, gaveWay := time.Now(), 0
	for _, s := range sends {
		s.since, s.stop = now.Add(-shortSlot), func(error) { gaveWay++ }
		if s.key.Account == "a" {
			s.stop = func(error) { gaveWay += 100 }
		}
	}
	if got := fill(p, "late", 1); len(got) != 0 || gaveWay != 100 {
		t.Errorf("a full channel has %d places, and %d sends of small accounts gave way", len(got), gaveWay)
	}
	for _, s := range sends {
		s.end()
	}
	if p.free != sendPlaces || len(p.accounts) != 0 {
		t.Errorf("when all is sent %d places are free, and %d accounts remembered", p.free, len(p.accounts))
	}
}

func TestMessagesWithoutAPlaceDoNotComeBackTogether(t *testing.T) {
	p, now := newPlaces(), time.Now()
	fill(p, "a", 2)
	d := corebot.Delivery{Attempt: 2, Message: corebot.Message{Key: corebot.Key{Account: "a", Chat: "x"}}}
	var first, last time.Time
	for i := range 10_000 {
		_, last = p.take(d, time.Minute, now)
		if i == 0 {
			first = last
		}
	}
	if wait := first.Sub(now); wait < postponed || wait > 2*postponed {
		t.Errorf("the first waits for %v", wait)
	}
	// as long as 256 places want for 10,000 short slots
	if wait := last.Sub(now); wait < 3*time.Minute || wait > 4*time.Minute {
		t.Errorf("the last waits for %v", wait)
	}
	d.Attempt = 1
	if s, _ := p.take(d, time.Minute, now); s == nil {
		t.Error("a chat that has not failed waits behind those that have")
	}
}

func TestTheSlowestSendThatHadItsTimeGivesWay(t *testing.T) {
	p := newPlaces()
	sends := fill(p, "a", 1)
	now := time.Now()
	stopped := map[*send]error{}
	for i, s := range sends {
		s.since, s.stop = now.Add(-time.Duration(i)*time.Second), func(err error) { stopped[s] = err }
	}
	d := corebot.Delivery{Attempt: 1, Message: corebot.Message{Key: corebot.Key{Account: "a", Chat: "x"}}}
	for range 2 {
		if s, again := p.take(d, time.Minute, now); s != nil || again.Before(now.Add(postponed)) {
			t.Error("there was a place after all")
		}
	}
	last := len(sends) - 1
	if len(stopped) != 2 || stopped[sends[last]] != errGaveWay || stopped[sends[last-1]] != errGaveWay {
		t.Errorf("%d sends gave way, and not the two slowest", len(stopped))
	}
	for _, s := range sends {
		s.since = now.Add(time.Millisecond - shortSlot)
	}
	clear(stopped)
	if p.take(d, time.Minute, now); len(stopped) != 0 {
		t.Error("a send gave way before it had its time")
	}
}
