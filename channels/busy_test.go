package channels_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
)

// crowd is a door whose lanes are full, and how often each chat was told so.
type crowd struct {
	t    *testing.T
	kit  *apptest.Kit
	door *channels.FrontDoor
	next int
}

func newCrowd(t *testing.T, chats ...string) *crowd {
	t.Helper()
	k, door := newDoor(t, policy.AccessOpen)
	c := &crowd{t: t, kit: k, door: door}
	for _, chat := range chats {
		for range 2 {
			if err := c.say(chat); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

func (c *crowd) say(chat string) error {
	c.next++
	in := incoming(fmt.Sprint(c.next), "hello")
	in.Chat = chat
	_, err := c.door.Accept(c.t.Context(), in)
	return err
}

// told says whether the next refusal in a chat is to be told there.
func (c *crowd) told(chat string) bool {
	c.t.Helper()
	err := c.say(chat)
	var busy *corebot.Busy
	if !errors.As(err, &busy) || !errors.Is(err, corebot.ErrLaneFull) {
		c.t.Fatalf("the refusal is %v", err)
	}
	if busy.RetryAfter <= 0 {
		c.t.Error("it does not say when to come again")
	}
	return busy.Tell
}

func TestABusyChatIsToldOnceInAnEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "a", "b")
		if !c.told("a") {
			t.Error("the first refusal is not told")
		}
		for range 100 { // a flood of nearly an hour
			time.Sleep(30 * time.Second)
			if c.told("a") {
				t.Fatal("it is told again")
			}
		}
		if !c.told("b") {
			t.Error("another chat is not told")
		}
	})
}

func TestRoomForOneMessageDoesNotEndAnEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "a")
		c.told("a")
		for range 3 {
			answerOne(t, c.kit)
			if err := c.say("a"); err != nil {
				t.Fatal(err)
			}
			if c.told("a") {
				t.Error("it is told again after each turn")
			}
		}
	})
}

func TestAnEpisodeEndsWhenAChatHasHadRoomForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, "a")
		c.told("a")
		time.Sleep(4 * time.Minute)
		if c.told("a") {
			t.Error("it ended after four minutes")
		}
		time.Sleep(11 * time.Minute)
		if !c.told("a") {
			t.Error("it has not ended after eleven")
		}
	})
}

func TestOnlyWantOfRoomIsWorthComingAgain(t *testing.T) {
	c := newCrowd(t)
	in := incoming("1", "")
	_, err := c.door.Accept(t.Context(), in)
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) || !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("an empty message: %v", err)
	}
	for err, want := range map[error]bool{
		corebot.ErrLaneFull: true, corebot.ErrOverloaded: true, corebot.ErrDiskFull: true, corebot.ErrConflict: false,
		corebot.ErrClosed: false,
	} {
		if after := channels.RetryAfter(fmt.Errorf("accept: %w", err)); (after > 0) != want {
			t.Errorf("%v: again after %v", err, after)
		}
	}
}

// answerOne ends the message at the head of the one lane.
func answerOne(t *testing.T, k *apptest.Kit) {
	t.Helper()
	if err := k.Bus.Settle(t.Context(), k.Claim(), corebot.Outcome{
		Verb: corebot.Done,
		End:  corebot.EndAnswered,
	}); err != nil {
		t.Fatal(err)
	}
}
