package console

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

// eventText is one server-sent event.
func eventText(id, kind, text string) string {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + kind + "\n")
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r", "\n"), "\n") {
		b.WriteString("data: " + line + "\n")
	}
	b.WriteString("\n")
	return b.String()
}

// chatStream is one page of a chat that is open.
type chatStream struct {
	c     *Console
	v     *visit
	s     *operate.Service
	out   *stream
	key   corebot.Key
	full  bool
	at    place
	shown []byte // what the page was last told of waiting messages
	told  bool   // it was told of them: before that, it shows those of the time when it was made
}

// stream shows a page of a chat what becomes of the chat. Entries and notices come from the database, behind the place
// that the page names. The text of an answer that is being made comes from memory. A page that connects again
// gets the text from then on, and the whole answer as an entry at its end.
func (c *Console) stream(v *visit) error {
	k, err := v.key()
	if err != nil || v.headOnly() {
		return err
	}
	st := &chatStream{c: c, v: v, s: v.service(), key: k, full: v.r.FormValue("view") == "full"}
	from := v.r.Header.Get("Last-Event-ID")
	if from == "" {
		from = v.r.FormValue("after")
	}
	at, ok := parsePlace(from)
	if !ok {
		if at, err = c.mark(v.ctx(), st.s, k); err != nil {
			return err
		}
	}
	st.at = at
	events, unwatch := c.opts.Live.Watch(k)
	defer unwatch()
	posted, unpost := c.opts.Channel.replies.Watch(k)
	defer unpost()
	if st.out, err = v.events(); err != nil {
		return nil //nolint:nilerr // the browser has left
	}
	logins := c.opts.Channel.loggedOut() // before update looks whether the session is in force
	if st.out.send("", "hello", "") != nil || st.update() != nil {
		return nil
	}
	st.follow(events, posted, logins)
	return nil
}

// follow passes on what happens until the page or Corebot ends.
func (st *chatStream) follow(events <-chan live.Event, posted, logins <-chan struct{}) {
	done := st.c.opts.Channel.running()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var due <-chan time.Time
	soon := func() {
		if due == nil {
			due = time.After(settles / 3)
		}
	}
	for {
		var err error
		select {
		case <-st.v.ctx().Done():
			return
		case <-done:
			return
		case <-logins:
			logins = st.c.opts.Channel.loggedOut()
			if !st.v.loggedIn() {
				return
			}
		case e := <-events:
			if e.Kind != live.Text && e.Kind != live.TextReset {
				soon()
			}
			err = st.live(e)
		case <-posted:
			soon()
		case <-due:
			due = nil
			err = st.update()
		case <-ticker.C:
			if err = st.out.comment(); err == nil && !st.v.loggedIn() {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// live passes on the text of an answer that is being made. It comes without secrets: a piece of it cannot tell of a
// secret that comes in two.
func (st *chatStream) live(e live.Event) error {
	switch e.Kind {
	case live.Text:
		text, _ := json.Marshal(e.Text) // a string: cannot fail
		return st.out.send("", "text", string(text))
	case live.TextReset, live.TurnStarted:
		return st.out.send("", "reset", "")
	}
	return nil
}

// update sends the entries and notices behind the place, and what waits. A page whose session has ended gets none.
func (st *chatStream) update() error {
	if !st.v.loggedIn() {
		return errLoggedOut
	}
	ctx := st.v.ctx()
	fresh, err := st.s.ReadNewEntries(ctx, st.key, st.at.number)
	if err != nil {
		return err
	}
	notices, err := st.c.opts.Notices.After(ctx, st.key, st.at.cursor, pageRows)
	if err != nil {
		return err
	}
	if fresh.Again || len(notices) == pageRows {
		return st.out.send("", "again", "")
	}
	entries, err := st.c.entries(ctx, st.s, st.key, st.full, fresh.Rows, notices)
	if err != nil {
		return err
	}
	st.at.number = fresh.Number
	if len(notices) > 0 {
		st.at.cursor = notices[len(notices)-1].Cursor
	}
	if len(entries) > 0 {
		text, err := st.c.pages.render("chat", "entries", entries)
		if err == nil {
			err = st.out.send(st.at.String(), "entries", st.c.opts.Redact(string(text)))
		}
		if err != nil {
			return err
		}
	}
	waiting, err := st.c.waiting(ctx, st.s, st.key)
	if err != nil {
		return err
	}
	text, err := st.c.pages.render("chat", "waiting", waiting)
	if err != nil || st.told && bytes.Equal(text, st.shown) {
		return err
	}
	st.shown, st.told = text, true
	return st.out.send("", "waiting", st.c.opts.Redact(string(text)))
}
