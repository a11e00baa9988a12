package mail

import (
	"errors"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
)

// stuck has the mails that the server does not give. They do not hold up the mails behind them: the cursor stays before
// the first of them, and ahead has what was taken behind the cursor. All of it is in memory. A restart begins the
// patience with each mail anew, and fetches the mails of ahead once more, as duplicates: so nothing is lost by it.
type stuck struct {
	singly int // so many fetches are of one mail: a fetch of several has failed
	held   map[imap.UID]*held
	ahead  map[imap.UID]struct{}
}

// held is a mail that the server did not give.
type held struct {
	since, again time.Time
	tries        int
}

const (
	mostTries = 5
	mostHeld  = 100
	mostAhead = 10_000
	lastWait  = 5 * time.Minute
)

// How long the server has to give a mail, from when this process asked for it first. A server that speaks of its own
// trouble says nothing about the mail. Tests wait for less.
var (
	firstWait    = 2 * time.Second // before a mail is asked for again; it doubles
	patience     = time.Hour
	longPatience = 24 * time.Hour
)

// temporary says whether the server refuses a fetch for a reason of its own.
func temporary(err error) bool {
	no := (*imap.Error)(nil)
	return errors.As(err, &no) && slices.Contains([]imap.ResponseCode{
		imap.ResponseCodeServerBug, imap.ResponseCodeUnavailable, imap.ResponseCodeInUse, imap.ResponseCodeLimit,
	}, no.Code)
}

// most is how many mails to fetch together.
func (s *stuck) most() int {
	if s.singly > 0 {
		return 1
	}
	return mostMails
}

// choose tells mails to ask for again, each by itself, from mails to ask for the first time. Mails that were taken, and
// mails to be asked for later, are neither.
func (s *stuck) choose(uids []imap.UID, now time.Time) (due, fresh []imap.UID) {
	for _, uid := range uids {
		one, is := s.held[uid]
		_, taken := s.ahead[uid]
		switch {
		case is && !now.Before(one.again):
			due = append(due, uid)
		case !is && !taken && len(s.ahead) < mostAhead:
			fresh = append(fresh, uid)
		}
	}
	return due, fresh
}

// failed notes that the server did not give a mail. kept: the mail is asked for again. giveUp: it was asked for often
// and long enough. With too many such mails none more is kept: then the server is in trouble.
func (s *stuck) failed(uid imap.UID, err error, now time.Time) (kept, giveUp bool) {
	one := s.held[uid]
	if one == nil {
		if len(s.held) >= mostHeld {
			return false, false
		}
		if s.held == nil {
			s.held = map[imap.UID]*held{}
		}
		one = &held{since: now}
		s.held[uid] = one
	}
	one.again = now.Add(min(firstWait<<min(one.tries, 10), lastWait))
	one.tries++
	wait := patience
	if temporary(err) {
		wait = longPatience
	}
	return true, one.tries >= mostTries && now.Sub(one.since) >= wait
}

// reach is the place up to which nothing is missing once mails are taken that follow on those taken before.
func (s *stuck) reach(at imap.UID, taken []imap.UID) imap.UID {
	to := taken[len(taken)-1]
	for uid := range s.ahead {
		to = max(to, uid)
	}
	for uid := range s.held {
		if !slices.Contains(taken, uid) {
			to = min(to, uid-1)
		}
	}
	return max(to, at)
}

// took notes mails that were taken, and that the cursor is now at a place.
func (s *stuck) took(taken []imap.UID, at imap.UID) {
	if s.ahead == nil {
		s.ahead = map[imap.UID]struct{}{}
	}
	for _, uid := range taken {
		delete(s.held, uid)
		s.ahead[uid] = struct{}{}
	}
	s.singly = max(s.singly-1, 0)
	s.behind(at)
}

// behind forgets what lies before the cursor.
func (s *stuck) behind(at imap.UID) {
	for uid := range s.held {
		if uid <= at {
			delete(s.held, uid)
		}
	}
	for uid := range s.ahead {
		if uid <= at {
			delete(s.ahead, uid)
		}
	}
}
