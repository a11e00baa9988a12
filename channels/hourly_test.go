package channels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// failing is a bus that stores nothing for a while.
type failing struct {
	*bus.Bus
	times int
}

func (f *failing) Receive(ctx context.Context, b corebot.Batch) ([]corebot.Receipt, corebot.Cursor, error) {
	if f.times--; f.times >= 0 {
		return nil, corebot.Cursor{}, errors.New("the disk is slow")
	}
	return f.Bus.Receive(ctx, b)
}

// newHourlyDoor is a door on a bus that fails so many times at first, and its log.
func newHourlyDoor(t *testing.T, fails int, rule channels.GroupRule) (*apptest.Kit, channels.Door, *strings.Builder) {
	t.Helper()
	k := apptest.New(t, apptest.Options{})
	access, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	front, err := channels.NewFrontDoor(&failing{k.Bus, fails}, k.Router, channels.Admissions{
		Chats:    storage.NewChats(k.DB),
		Accounts: map[channels.Account]channels.AccountRules{account: {Access: access, Groups: rule}},
	}, channels.DoorOptions{Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	return k, front.At(account), &log
}

// many are messages of a sender, with numbers from one to another.
func many(h *channels.Hourly, from, to int) (all []channels.Incoming) {
	for i := from; i <= to; i++ {
		in := inLane(fmt.Sprint(i), "direct", "hello")
		in.Hourly, in.Interactive = h, true
		all = append(all, in)
	}
	return all
}

// answered counts the messages that wait for a turn.
func answered(t *testing.T, k *apptest.Kit, from, to int) (n int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if k.Life(fmt.Sprint(i)).End != corebot.EndHeard {
			n++
		}
	}
	return n
}

func TestAMessageCountsForItsSenderOnceItIsStored(t *testing.T) {
	k, door, log := newHourlyDoor(t, 3, channels.GroupsAll)
	h := &channels.Hourly{Most: 25}
	c := corebot.Cursor{}
	for try := range 4 {
		taken, err := door.AcceptBatch(t.Context(), many(h, 1, 20), c.To("20"))
		if (err == nil) != (try == 3) {
			t.Fatalf("try %d: %v", try, err)
		}
		c = taken.Cursor
	}
	if n := answered(t, k, 1, 20); n != 20 {
		t.Errorf("of 20 that were stored at the fourth try %d are answered", n)
	}
	taken, err := door.AcceptBatch(t.Context(), many(h, 1, 20), c.To("20")) // as in a folder that is read again
	if err != nil {
		t.Fatal(err)
	}
	// 15 duplicates, the last 5 that are answered, and 3 that are not
	taken, err = door.AcceptBatch(t.Context(), many(h, 6, 28), taken.Cursor.To("28"))
	if err != nil {
		t.Fatal(err)
	}
	if n := answered(t, k, 21, 25); n != 5 {
		t.Errorf("of the 5 that are left %d are answered", n)
	}
	if n := answered(t, k, 26, 28); n != 0 {
		t.Errorf("%d are answered that are too many", n)
	}
	if _, err := door.AcceptBatch(t.Context(), many(h, 29, 40), taken.Cursor.To("40")); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "more in an hour"); n != 1 || !strings.Contains(log.String(), `"alice"`) {
		t.Errorf("the log says %d times: %s", n, log)
	}
	other := many(h, 41, 41)[0]
	other.SenderID = "bob"
	if _, err := door.Accept(t.Context(), other); err != nil || answered(t, k, 41, 41) != 1 {
		t.Errorf("another is not answered: %v", err)
	}
}

func TestAnHourLaterASenderIsAnsweredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door, _ := newHourlyDoor(t, 0, channels.GroupsAll)
		h := &channels.Hourly{Most: 2}
		say := func(i int) {
			if _, err := door.Accept(t.Context(), many(h, i, i)[0]); err != nil {
				t.Fatal(err)
			}
		}
		for i := 1; i <= 3; i++ {
			say(i)
		}
		if n := answered(t, k, 1, 3); n != 2 {
			t.Errorf("%d are answered", n)
		}
		time.Sleep(time.Hour)
		say(4)
		if answered(t, k, 4, 4) != 1 {
			t.Error("an hour later it is not answered")
		}
	})
}

func TestAMessageThatNamesNobodyDoesNotCountForItsSender(t *testing.T) {
	k, door, _ := newHourlyDoor(t, 0, channels.GroupsMention)
	h := &channels.Hourly{Most: 1}
	for i := 1; i <= 3; i++ {
		in := inGroup(fmt.Sprint(i), "hello", i == 3)
		in.Hourly = h
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if answered(t, k, 1, 2) != 0 || answered(t, k, 3, 3) != 1 {
		t.Error("what others were told has used up the answers")
	}
}

// In a group that hears everything, a bridge can hide that a sender is a bot. Two bots could answer each other for
// ever.
func TestABotThatAnswersEachAnswerIsAnsweredNoMoreThanHourlyTimes(t *testing.T) {
	k, door, _ := newHourlyDoor(t, 0, channels.GroupsAll)
	h := &channels.Hourly{Most: 3}
	for i := 1; i <= 10; i++ {
		in := inGroup(fmt.Sprint(i), "I do not understand.", false)
		in.Hourly = h
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if n := answered(t, k, 1, 10); n != 3 {
		t.Errorf("it is answered %d times", n)
	}
}
