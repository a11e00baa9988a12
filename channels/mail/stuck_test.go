package mail

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
)

func no(code imap.ResponseCode) error {
	return &imap.Error{Type: imap.StatusResponseTypeNo, Code: code}
}

func TestAMailIsGivenUpOnlyAfterManyTriesInALongTime(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		wait time.Duration
	}{
		"a refusal":            {no(""), time.Hour},
		"an unknown code":      {no("EXPUNGEISSUED"), time.Hour},
		"a broken connection":  {errors.New("closed"), time.Hour},
		"a bug of the server":  {no(imap.ResponseCodeServerBug), 24 * time.Hour},
		"an absent part of it": {no(imap.ResponseCodeUnavailable), 24 * time.Hour},
		"a lock":               {no(imap.ResponseCodeInUse), 24 * time.Hour},
		"a limit":              {no(imap.ResponseCodeLimit), 24 * time.Hour},
	} {
		var s stuck
		now := time.Now()
		for range 50 { // in a moment: no number of tries is enough
			if kept, giveUp := s.failed(7, c.err, now); !kept || giveUp {
				t.Fatalf("%s: kept %v, given up at once %v", name, kept, giveUp)
			}
		}
		if _, giveUp := s.failed(7, c.err, now.Add(c.wait-time.Second)); giveUp {
			t.Errorf("%s: given up too soon", name)
		}
		if _, giveUp := s.failed(7, c.err, now.Add(c.wait)); !giveUp {
			t.Errorf("%s: not given up after %v", name, c.wait)
		}
		var few stuck
		few.failed(7, c.err, now)
		if _, giveUp := few.failed(7, c.err, now.Add(48*time.Hour)); giveUp {
			t.Errorf("%s: given up after two tries", name)
		}
	}
}

func TestTheCursorStaysBeforeAMailThatIsHeld(t *testing.T) {
	var s stuck
	now := time.Now()
	s.took([]imap.UID{1}, s.reach(0, []imap.UID{1}))
	s.failed(2, no(""), now)
	due, fresh := s.choose([]imap.UID{2, 3, 4}, now)
	if len(due) != 0 || !slices.Equal(fresh, []imap.UID{3, 4}) {
		t.Errorf("%d are asked for at once again, %d the first time", due, fresh)
	}
	to := s.reach(1, []imap.UID{3, 4})
	if s.took([]imap.UID{3, 4}, to); to != 1 {
		t.Errorf("the cursor is at %d", to)
	}
	due, fresh = s.choose([]imap.UID{2, 3, 4, 5}, now.Add(time.Minute))
	if !slices.Equal(due, []imap.UID{2}) || !slices.Equal(fresh, []imap.UID{5}) {
		t.Errorf("later %d are asked for again, %d the first time", due, fresh)
	}
	to = s.reach(1, []imap.UID{2})
	if s.took([]imap.UID{2}, to); to != 4 || len(s.held)+len(s.ahead) != 0 {
		t.Errorf("the cursor is at %d, with %d held and %d ahead", to, len(s.held), len(s.ahead))
	}
}

func TestThereAreNotManyMailsThatAreHeldOrTakenBehindThem(t *testing.T) {
	var s stuck
	for uid := imap.UID(1); uid <= mostHeld; uid++ {
		s.failed(uid, no(""), time.Now())
	}
	if kept, _ := s.failed(mostHeld+1, no(""), time.Now()); kept {
		t.Error("one more is held")
	}
	var ahead []imap.UID
	for uid := imap.UID(1000); uid < 1000+mostAhead; uid++ {
		ahead = append(ahead, uid)
	}
	s.took(ahead, s.reach(0, ahead))
	if _, fresh := s.choose([]imap.UID{1, 100_000}, time.Now()); len(fresh) != 0 {
		t.Errorf("%d more are taken", fresh)
	}
}
