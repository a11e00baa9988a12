package mail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/sorted"
)

const (
	maxMail   = 1 << 20 // bytes that are read of a mail
	mostMails = 20      // in a batch
)

// place is how far the account has received: the receive cursor.
type place struct {
	validity uint32   // of the folder's numbers
	uid      imap.UID // of the last mail that was looked at
	since    int64    // when the account received first, in seconds
	until    imap.UID // the last mail that was there when the server had numbered the folder anew
}

func (p place) String() string {
	return fmt.Sprintf("%d/%d/%d/%d", p.validity, p.uid, p.since, p.until)
}

func parsePlace(s string) (p place, err error) {
	_, err = fmt.Sscanf(s, "%d/%d/%d/%d", &p.validity, &p.uid, &p.since, &p.until)
	if err != nil || p.String() != s {
		return place{}, fmt.Errorf("the stored place %q cannot be read", s)
	}
	return p, nil
}

// rereads is how old a mail can be that is read again. What Corebot has accepted is remembered for longer.
const rereads = 48 * time.Hour

// old says whether a mail was there before, in a folder that the server has numbered anew. Such a mail is from before
// the account's first start, or so old that nobody waits for an answer. The clock of the server tells.
func (p place) old(got fetched, now time.Time) bool {
	return got.uid <= p.until && (got.received.Unix() < p.since || now.Sub(got.received) > rereads)
}

// Run receives mail until ctx ends. A connection that breaks and a refused password are errors: the supervisor runs the
// channel again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	err := c.receive(ctx, door)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *Channel) receive(ctx context.Context, door channels.Door) error {
	m, err := c.login(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	box, err := m.Select(c.settings.Folder, nil).Wait()
	if err != nil {
		return corebot.WithHint(fmt.Errorf("open the folder %q: %w", c.settings.Folder, err),
			"look at channels.mail.ACCOUNT.folder")
	}
	door.Alive()
	cursor, err := door.Cursor(ctx)
	if err != nil {
		return err
	}
	at, err := c.begin(ctx, box, &cursor, door)
	if err != nil {
		return err
	}
	for pause := soon; ; pause = min(2*pause, c.settings.Poll) {
		was := at.uid
		if err := c.takeAll(ctx, m, door, &at, &cursor); err != nil {
			return err
		}
		if door.Alive(); at.uid != was {
			pause = soon
		}
		if err := c.wait(ctx, m, min(pause, c.settings.Poll)); err != nil {
			return err
		}
	}
}

// soon is when to look again after a mail. A server can lose the news of a mail that comes between the look and the
// wait. The next looks are further and further apart, up to the poll of the settings. Tests wait for less.
var soon = 2 * time.Second

// begin is where to receive behind. The first time this is the end of the folder: what was there before is not
// Corebot's to answer. When the server has numbered the folder anew, all numbers mean other mails. Then the folder is
// read again from its begin; what was accepted before is a duplicate.
func (c *Channel) begin(ctx context.Context, box *imap.SelectData, cursor *corebot.Cursor, door channels.Door,
) (at place, err error) {
	if box.UIDValidity == 0 {
		return at, errors.New("the mail server gives no UIDVALIDITY, so its mails cannot be told apart")
	}
	if cursor.Position != "" {
		if at, err = parsePlace(cursor.Position); err != nil {
			return at, err
		}
		if at.validity != box.UIDValidity {
			c.site.Log.Warn().Uint32("was", at.validity).Uint32("is", box.UIDValidity).
				Msg("the mail server has numbered the folder anew; it is read again, and nothing is answered twice")
			at.validity, at.uid, at.until = box.UIDValidity, 0, math.MaxUint32
			c.stuck = stuck{}
			if box.UIDNext > 0 {
				at.until = box.UIDNext - 1
			}
			// Stored at once: a fetch that breaks the connection begins here again, and would forget what it held.
			taken, err := door.AcceptBatch(ctx, nil, cursor.To(at.String()))
			if err != nil {
				return at, err
			}
			*cursor = taken.Cursor
		}
		c.stuck.behind(at.uid)
		return at, nil
	}
	at = place{validity: box.UIDValidity, since: time.Now().Unix()}
	if box.UIDNext > 0 {
		at.uid = box.UIDNext - 1
	}
	taken, err := door.AcceptBatch(ctx, nil, cursor.To(at.String()))
	*cursor = taken.Cursor
	return at, err
}

// takeAll takes in everything behind the place.
func (c *Channel) takeAll(ctx context.Context, m *mailbox, door channels.Door, at *place,
	cursor *corebot.Cursor,
) error {
	for {
		uids, err := m.newer(at.uid)
		if err != nil {
			return fmt.Errorf("look for new mail: %w", err)
		}
		due, fresh := c.stuck.choose(uids, time.Now())
		if len(due)+len(fresh) == 0 {
			return nil
		}
		for _, uid := range due {
			if _, err := c.take(ctx, m, []imap.UID{uid}, door, at, cursor); err != nil {
				return err
			}
		}
		for went := true; went && len(fresh) > 0; {
			n := min(len(fresh), c.stuck.most())
			if went, err = c.take(ctx, m, fresh[:n], door, at, cursor); err != nil {
				return err
			}
			went, fresh = went || n == 1, fresh[n:] // several that were refused are asked for one by one
		}
	}
}

// newer are the numbers behind one, in order. A server gives the last mail for a range that begins behind all mails.
func (m *mailbox) newer(than imap.UID) (uids []imap.UID, err error) {
	if than == math.MaxUint32 {
		return nil, nil
	}
	var above imap.UIDSet
	above.AddRange(than+1, 0)
	err = m.within(slack, func() error {
		if err := m.Noop().Wait(); err != nil { // a server can keep news back until it is asked
			return err
		}
		found, err := m.UIDSearch(&imap.SearchCriteria{UID: []imap.UIDSet{above}}, nil).Wait()
		if err == nil {
			uids = uidsOf(found, than, mostFound)
		}
		return err
	})
	return uids, err
}

// fetchTime is how long a batch may take on the line.
const fetchTime = 2 * time.Minute

// take gives one batch to the door and flags its mails behind the commit. It has not gone if the server refused to give
// the mails.
func (c *Channel) take(ctx context.Context, m *mailbox, uids []imap.UID, door channels.Door, at *place,
	cursor *corebot.Cursor,
) (went bool, err error) {
	mails, went, err := c.fetch(m, uids)
	if !went || err != nil {
		return false, err
	}
	var batch []channels.Incoming
	var marked, own imap.UIDSet
	for _, got := range mails {
		if at.old(got, time.Now()) {
			continue
		}
		in, is := c.read(got)
		switch is {
		case ownCopy:
			own.AddNum(got.uid)
		case message:
			batch = append(batch, in)
			marked.AddNum(got.uid)
		}
	}
	next := *at
	next.uid = c.stuck.reach(at.uid, uids)
	for {
		taken, err := door.AcceptBatch(ctx, batch, cursor.To(next.String()))
		busy := (*corebot.Busy)(nil)
		switch {
		case err == nil:
			*at, *cursor = next, taken.Cursor
			c.stuck.took(uids, next.uid)
			c.tidy(m, marked, own)
			return true, nil
		case errors.As(err, &busy):
			c.site.Log.Warn().Err(err).Msg("no room for what was fetched; it is given again")
			backoff.Sleep(ctx, busy.RetryAfter)
		default:
			return false, err
		}
	}
}

// fetched is one mail as the server gave it.
type fetched struct {
	uid      imap.UID
	received time.Time
	text     []byte
	whole    bool
}

// fetch gets mails. It has not gone if the server refused and the connection is good. A mail that the server does not
// give is asked for again, and does not hold up the others. In the end it is given up.
func (c *Channel) fetch(m *mailbox, uids []imap.UID) (all []fetched, went bool, err error) {
	err = m.within(fetchTime, func() (err error) { all, err = m.mails(uids); return err })
	if err == nil {
		sorted.By(all, func(a, b fetched) int { return int(int64(a.uid) - int64(b.uid)) })
		return all, true, nil
	}
	no := (*imap.Error)(nil)
	refused := errors.As(err, &no)
	err = fmt.Errorf("fetch mail: %w", err)
	if len(uids) == 1 {
		log := c.site.Log.With().Err(err).Uint32("uid", uint32(uids[0])).Logger()
		kept, giveUp := c.stuck.failed(uids[0], err, time.Now())
		switch {
		case giveUp:
			log.Error().Msg("the mail server cannot give a mail; it is left out")
			return nil, true, nil
		case kept && c.stuck.held[uids[0]].tries == 1:
			log.Warn().Msg("the mail server does not give a mail; it is asked again, and mails behind it are taken")
		}
		refused = refused && kept
	} else {
		c.stuck.singly = mostMails
	}
	if refused {
		return nil, false, nil
	}
	return nil, false, err
}

func (m *mailbox) mails(uids []imap.UID) (all []fetched, err error) {
	section := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: maxMail}}
	got := m.Fetch(imap.UIDSetNum(uids...), &imap.FetchOptions{
		UID: true, InternalDate: true, BodySection: []*imap.FetchItemBodySection{section},
	})
	defer func() { err = errors.Join(err, got.Close()) }()
	for one := got.Next(); one != nil; one = got.Next() {
		var f fetched
		for item := one.Next(); item != nil; item = one.Next() {
			switch item := item.(type) {
			case imapclient.FetchItemDataUID:
				f.uid = item.UID
			case imapclient.FetchItemDataInternalDate:
				f.received = item.Time
			case imapclient.FetchItemDataBodySection:
				if item.Literal == nil {
					continue
				}
				if f.text, err = bounded(item.Literal, maxMail); err != nil {
					return nil, err
				}
			}
		}
		f.whole = len(f.text) < maxMail
		if len(all) < len(uids) && slices.Contains(uids, f.uid) { // a server can give one mail for ever
			all = append(all, f)
		}
	}
	return all, nil
}

// tidy flags mails that were accepted, for people who look at the mailbox, and files the account's own copies. Nothing
// depends on it.
func (c *Channel) tidy(m *mailbox, seen, own imap.UIDSet) {
	err := m.within(slack, func() (err error) {
		if len(seen) > 0 {
			flags := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}
			err = m.Store(seen, flags, nil).Close()
		}
		if len(own) > 0 {
			flags := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}
			err = errors.Join(err, m.Store(own, flags, nil).Close())
			folder, found := c.sentFolder(m)
			if found == nil && !strings.EqualFold(folder, c.settings.Folder) {
				_, found = m.Move(own, folder).Wait()
			}
			err = errors.Join(err, found)
		}
		return err
	})
	if err != nil {
		c.site.Log.Warn().Err(err).Msg("mails were received, and could not be flagged or filed")
	}
}

// wait returns when there is news, or when it is time to look again. The server tells of new mail while it idles; it
// can also be deaf, so it is asked in any case.
func (c *Channel) wait(ctx context.Context, m *mailbox, most time.Duration) error {
	poll := time.NewTimer(most)
	defer poll.Stop()
	if !m.Caps().Has(imap.CapIdle) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
		return nil
	}
	var idle *imapclient.IdleCommand
	err := m.within(slack, func() (err error) { idle, err = m.Idle(); return err })
	if err != nil {
		return fmt.Errorf("wait for mail: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-poll.C:
	case <-m.news:
	case <-m.Closed():
	}
	return m.within(slack, func() error { return errors.Join(idle.Close(), idle.Wait()) })
}
