package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// desk is the connection on which sends look things up. One send has it at a time.
type desk struct {
	turn chan struct{}
	m    *mailbox
	stop context.CancelFunc
}

// atDesk does something on the connection, which ends if it fails or takes too long.
func (c *Channel) atDesk(ctx context.Context, do func(m *mailbox) error) error {
	select {
	case c.desk.turn <- struct{}{}:
		defer func() { <-c.desk.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.desk.m != nil {
		err := c.lookUp(ctx, do)
		if err == nil || ctx.Err() != nil {
			return err
		}
	} // a connection that was idle for long may have ended
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, stop)
	m, err := c.login(life)
	unbind()
	if err != nil {
		stop()
		return err
	}
	c.desk.m, c.desk.stop = m, stop
	return c.lookUp(ctx, do)
}

func (c *Channel) lookUp(ctx context.Context, do func(m *mailbox) error) (err error) {
	m := c.desk.m
	unbind := context.AfterFunc(ctx, func() { _ = m.Close() })
	defer func() {
		if !unbind() || err != nil {
			c.desk.stop()
			m.close()
			c.desk.m = nil
		}
	}()
	return m.within(slack, func() error { return do(m) })
}

// sentFolder is the folder of sent mails: that of the settings, or the one that the server names.
func (c *Channel) sentFolder(m *mailbox) (string, error) {
	if c.settings.Sent != "" {
		return c.settings.Sent, nil
	}
	var options *imap.ListOptions
	if m.Caps().Has(imap.CapSpecialUse) {
		options = &imap.ListOptions{ReturnSpecialUse: true}
	}
	folders, err := m.List("", "*", options).Collect()
	if err != nil {
		return "", fmt.Errorf("list the folders: %w", err)
	}
	name := ""
	for _, f := range folders {
		for _, a := range f.Attrs {
			if a == imap.MailboxAttrSent {
				return f.Mailbox, nil
			}
		}
		switch f.Mailbox {
		case "Sent", "Sent Items", "Sent Messages", "INBOX.Sent":
			name = f.Mailbox
		}
	}
	if name == "" {
		name = "Sent"
		if err := m.Create(name, nil).Wait(); err != nil {
			return "", fmt.Errorf("make the folder %q: %w", name, err)
		}
	}
	return name, nil
}

// file puts a copy of a sent mail into the folder of sent mails.
func (c *Channel) file(ctx context.Context, text []byte) error {
	return c.atDesk(ctx, func(m *mailbox) error {
		folder, err := c.sentFolder(m)
		if err != nil {
			return err
		}
		in := m.Append(folder, int64(len(text)), &imap.AppendOptions{Flags: []imap.Flag{imap.FlagSeen}})
		_, err = in.Write(text)
		err = errors.Join(err, in.Close())
		if err != nil {
			return err
		}
		_, err = in.Wait()
		return err
	})
}

// arrives is how long a copy of a mail that was taken may be on its way to the mailbox at least. A busy server can need
// more than 15 s. A server whose copies were later of late has more time, up to [MostArrives]. Tests wait for less.
var arrives = 30 * time.Second

// MostArrives is how long a mail whose sending was cut off waits at most for its copy, while the servers are in reach.
// Then it is sent again.
const MostArrives = 5 * time.Minute

const (
	latelyCounts = 10 * time.Minute // how long a late copy counts
	timesAsLate  = 3                // so much later than the latest copy of late another one can be
)

// lateness is how long a copy was on its way, and when it came.
type lateness struct {
	took time.Duration
	at   time.Time
}

// noteLate remembers the latest copy of late.
func (c *Channel) noteLate(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if took >= c.late.took || time.Since(c.late.at) > latelyCounts {
		c.late = lateness{took, time.Now()}
	}
}

// waits is how long a copy may be on its way now.
func (c *Channel) waits() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.late.at) > latelyCounts {
		return arrives
	}
	return min(max(arrives, timesAsLate*c.late.took), MostArrives)
}

// askAgain is how long a mail waits at most until it is looked for anew, whose copy can still be on its way. The copy
// of most mails comes long before the end of the wait, and the conversation is held up until then.
const askAgain = 10 * time.Second

// lookAgain is when to search the mailbox anew meanwhile. A search can take long in a large mailbox, so the reception
// says what has come in between.
const lookAgain = 4 * time.Second

// Delivered implements [channels.Reconciler]: it looks for the mail in the mailbox, under its Message-ID. The server
// takes the copy for the account itself in one with the mail, so the mail was sent if it is there. If not, it is looked
// for again, because a copy can be on its way. A call whose time is too short for that leaves the question open, and
// the next one goes on. A copy that Corebot files itself comes later than the mail. If that copy is missing, nobody can
// tell.
func (c *Channel) Delivered(ctx context.Context, o channels.Outbound) (channels.Receipt, bool, error) {
	id := c.names.of(o.Key, o.IdempotencyKey)
	if c.isAbsent(id) {
		return channels.Receipt{}, false, nil
	}
	var first time.Time
	for asked := false; ; {
		shown := c.hasCome(id)
		if !shown {
			err := c.atDesk(ctx, func(m *mailbox) (err error) { shown, err = c.find(m, id); return err })
			if err != nil {
				return channels.Receipt{}, false, outOfReach(fmt.Errorf("look for a sent mail: %w", err))
			}
		}
		switch {
		case shown:
			c.found(id)
			return channels.Receipt{IDs: []string{id}}, true, nil
		case c.settings.SentCopy == copyAppend:
			return channels.Receipt{}, false, fmt.Errorf("%w: there is no copy of the mail", channels.ErrCannotTell)
		case !asked: // a server that is down can have the copy in its spool
			out, err := c.submit(ctx)
			if err != nil {
				c.found(id) // the time begins anew when the server is back
				return channels.Receipt{}, false, err
			}
			_, asked = out.Quit(), true
			first = c.lookedFor(id)
		}
		now, until := time.Now(), first.Add(c.waits())
		if !now.Before(until) {
			c.found(id)
			return channels.Receipt{}, false, nil
		}
		if by, bounded := ctx.Deadline(); bounded && by.Before(now.Add(toSpare)) {
			return channels.Receipt{}, false, &corebot.Failure{
				Class: corebot.Cancelled, RetryAfter: min(until.Sub(now), askAgain),
				Err: errors.New("the copy of the mail can still be on its way"),
			}
		}
		again := within(ctx, min(lookAgain, until.Sub(now)))
		for !c.hasCome(id) && time.Now().Before(again) {
			select {
			case <-ctx.Done():
				return channels.Receipt{}, false, outOfReach(ctx.Err())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

// toSpare is how long before the end of ctx a search ends.
const toSpare = 2 * time.Second

// within is the end of a time that begins now, or some seconds before ctx ends.
func within(ctx context.Context, d time.Duration) time.Time {
	until := time.Now().Add(d)
	if by, bounded := ctx.Deadline(); bounded && by.Add(-toSpare).Before(until) {
		return by.Add(-toSpare)
	}
	return until
}

// lookedFor is when this process looked for a mail first, while the server that sends was up.
func (c *Channel) lookedFor(id string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.looked) >= 10_000 {
		clear(c.looked)
	}
	if _, known := c.looked[id]; !known {
		c.looked[id] = time.Now()
	}
	return c.looked[id]
}

// found ends the search for a mail.
func (c *Channel) found(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.looked, id)
}

// find looks for a mail of the account by its id. The folder of new mail comes first: from there a copy goes to the
// other one.
func (c *Channel) find(m *mailbox, id string) (bool, error) {
	sent, err := c.sentFolder(m)
	if err != nil {
		return false, err
	}
	for _, folder := range []string{c.settings.Folder, sent} {
		uids, err := m.withID(folder, id)
		if err != nil {
			return false, err
		}
		if len(uids) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// withID are the mails of a folder with a Message-ID.
func (m *mailbox) withID(folder, id string) ([]imap.UID, error) {
	return m.having(folder, imap.SearchCriteria{
		Header: []imap.SearchCriteriaHeaderField{{Key: "Message-Id", Value: id}},
	})
}

// having are the mails of a folder that a search finds.
func (m *mailbox) having(folder string, what imap.SearchCriteria) ([]imap.UID, error) {
	if _, err := m.Select(folder, readOnly).Wait(); err != nil {
		return nil, fmt.Errorf("open the folder %q: %w", folder, err)
	}
	found, err := m.UIDSearch(&what, nil).Wait()
	if err != nil {
		return nil, fmt.Errorf("search the folder %q: %w", folder, err)
	}
	return uidsOf(found, 0, mostFound), nil
}

// mostFound is how many mails of a search count.
const mostFound = 10_000

// uidsOf are the first numbers of a search that are above one, in order. A server can name ranges of billions of mails,
// and mails without a number.
func uidsOf(found *imap.SearchData, above imap.UID, most int) (uids []imap.UID) {
	set, _ := found.All.(imap.UIDSet) // a server that found nothing can send none
	ranges := slices.Clone(set)
	slices.SortFunc(ranges, func(a, b imap.UIDRange) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range ranges {
		if r.Start == 0 || r.Stop == 0 {
			continue
		}
		above = max(above, r.Start-1) // ranges can overlap
		for ; above < r.Stop && len(uids) < most; above++ {
			uids = append(uids, above+1)
		}
	}
	return uids
}

// subjectFor is the subject of the mail that a send answers, or of its conversation: what comes later, such as a
// reminder, answers no mail. After a restart it is looked up in the mailbox. Without it the answer has its own first
// line as its subject, and many programs show the answer apart from its conversation then.
func (c *Channel) subjectFor(ctx context.Context, o channels.Outbound) string {
	of := conversation(o.Key.Chat, o.Key.Thread)
	for _, id := range []string{o.InReplyTo, of} {
		if subject, known := c.subject(id); known {
			return subject
		}
	}
	id := o.InReplyTo
	if !isMessageID(id) {
		id = o.Key.Thread
	}
	if !isMessageID(id) {
		return ""
	}
	subject := ""
	err := c.atDesk(ctx, func(m *mailbox) error {
		uids, err := m.withID(c.settings.Folder, id)
		if err == nil && len(uids) == 0 && isMessageID(o.Key.Thread) { // its beginning was not sent to Corebot
			uids, err = m.having(c.settings.Folder, imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{
				{Key: "References", Value: o.Key.Thread},
				{Key: "From", Value: strings.TrimPrefix(o.Key.Chat, strangers)},
			}})
		}
		if err != nil || len(uids) == 0 {
			return err
		}
		h, err := m.head(imap.UIDSetNum(slices.Max(uids)))
		subject = words(h.text("subject"))
		return err
	})
	if err != nil {
		c.site.Log.Debug().Err(err).Msg("the subject of a mail was not found")
		return ""
	}
	if id == o.InReplyTo {
		c.remember(id, subject)
	}
	c.remember(of, subject) // for the next answers there: a search can take long
	return subject
}

// conversation names a thread of somebody among the ids of mails. Anybody can name a thread in his mails, so each
// person has subjects of his own.
func conversation(chat, thread string) string { return chat + "\n" + thread }
