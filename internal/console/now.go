package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

// nowData is what happens at this moment.
type nowData struct {
	Lanes  []operate.Lane        `json:"lanes"`
	Busy   operate.Lanes         `json:"busy"` // counts of all lanes
	Health operate.Health        `json:"health"`
	Status operate.Status        `json:"status"`
	Lately []operate.AuditEvent  `json:"lately"` // of the last minute, newest first
	Chats  []operate.Chat        `json:"-"`      // of the console, to go on with
	Waits  []operate.ApprovalRow `json:"approvals"`
}

// Bounds of what the page shows.
const (
	nowLanes  = 25
	nowLately = 20
	nowChats  = 6
)

// now shows the turns that run, what waits, and what has changed lately.
func (c *Console) now(v *visit) (err error) {
	s, d := v.service(), nowData{}
	lanes, err := s.ListLanes(v.ctx(), operate.LanesQuery{Limit: nowLanes})
	if err != nil {
		return err
	}
	d.Lanes, lanes.Rows, d.Busy = lanes.Rows, nil, lanes
	if d.Health, err = s.ReadHealth(v.ctx(), struct{}{}); err != nil {
		return err
	}
	if d.Status, err = s.Status(v.ctx(), struct{}{}); err != nil {
		return err
	}
	lately, err := s.ListAudit(v.ctx(), operate.AuditQuery{
		Part: operate.Part{Limit: nowLately}, Filter: corebot.AuditFilter{Since: time.Now().Add(-time.Minute)},
	})
	if err != nil {
		return err
	}
	d.Lately = lately.Rows
	chats, err := s.ListChats(v.ctx(), operate.ChatsQuery{
		Channel: corebot.ConsoleChannel, Recent: true, Part: operate.Part{Limit: nowChats},
	})
	if err != nil {
		return err
	}
	d.Chats = chats.Rows
	waits, err := s.ListApprovals(v.ctx(), operate.ApprovalQuery{Part: operate.Part{Limit: 5}})
	for _, a := range waits.Rows {
		d.Waits = append(d.Waits, a.Row())
	}
	if err != nil {
		return err
	}
	return v.show(page{Name: "now", Title: "Now", Data: d, Live: true})
}

// beat is how often a stream shows that it is open, so that a connection that broke is noticed.
const beat = 25 * time.Second

// settles is how long a stream gathers changes before it tells of them.
const settles = 150 * time.Millisecond

// nowStream tells a page that something has changed, as server-sent events. The page then asks for what it shows.
func (c *Console) nowStream(v *visit) error {
	if v.headOnly() {
		return nil
	}
	done := c.opts.Channel.running()
	logins := c.opts.Channel.loggedOut() // before the look below: a session that ends behind it is noticed
	events, stop := c.opts.Live.WatchSteps()
	defer stop()
	out, err := v.events()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var due <-chan time.Time
	if !v.loggedIn() {
		return nil
	}
	for {
		select {
		case <-v.ctx().Done():
			return nil
		case <-done:
			return nil
		case <-logins: // whether it was this session is looked at below
			logins = c.opts.Channel.loggedOut()
		case e := <-events:
			if due == nil && e.Kind != live.Text {
				due = time.After(settles)
			}
			continue
		case <-due:
			due = nil
			err = out.send("", "changed", "now")
		case <-ticker.C:
			err = out.comment()
		}
		if err != nil || !v.loggedIn() {
			return nil
		}
	}
}

// stream writes server-sent events.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// slowReader is how long a reader can take for one event.
const slowReader = 10 * time.Second

const mediaEvents = "text/event-stream; charset=utf-8"

// headOnly answers a HEAD of a stream, which would never end.
func (v *visit) headOnly() bool {
	if v.r.Method != http.MethodHead {
		return false
	}
	v.w.Header().Set("Content-Type", mediaEvents)
	return true
}

// events begins a stream. It has no time limit, only each write has.
func (v *visit) events() (*stream, error) {
	s := &stream{v.w, http.NewResponseController(v.w)}
	if err := s.rc.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("begin a stream: %w", err)
	}
	v.w.Header().Set("Content-Type", mediaEvents)
	return s, s.comment()
}

func (s *stream) comment() error { return s.write(": \n\n") }

// send writes one event. Line ends of the text begin further lines of it.
func (s *stream) send(id, kind, text string) error {
	return s.write(eventText(id, kind, text))
}

func (s *stream) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(slowReader)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
