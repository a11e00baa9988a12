package channels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/live"
)

const (
	// A quick answer is there before anybody looks: nothing is shown of it.
	typingAfter = 500 * time.Millisecond
	// typingMost bounds how long an answer is shown to be made: the word that it ended can be missed.
	typingMost = 15 * time.Minute
	typingCall = 5 * time.Second
	// An answer that grows is sign enough. One that stands still for so long, as behind a call of a tool, is not.
	typingBeside = 30 * time.Second
	// Behind a notice the draft is gone, and typing is shown again so soon.
	typingLook = 5 * time.Second
)

// Turns tells of the turns that begin and end.
type Turns interface {
	WatchTurns() (events <-chan live.Event, stop func())
}

// Answers tells of the turns that begin and end, and of their texts.
type Answers interface {
	WatchAnswers() (events <-chan live.Event, stop func())
}

// Type shows in the chats of each [Typer] that an answer is being made, until ctx ends. Of turns that nobody in the
// chat asked for, such as those of tasks, it shows nothing.
func (s *Supervisor) Type(ctx context.Context, turns Turns) error {
	typers := map[Account]*watched{}
	for _, e := range s.entries {
		if _, types := e.Channel.(Typer); types {
			typers[e.Account] = e
		}
	}
	if len(typers) == 0 {
		<-ctx.Done()
		return nil
	}
	events, stop := turns.WatchTurns()
	defer stop()
	var showing sync.WaitGroup
	defer showing.Wait()
	ends := map[corebot.Key]context.CancelFunc{}
	for {
		var e live.Event
		select {
		case <-ctx.Done():
			return nil // which ends all that is shown
		case e = <-events:
		}
		w := typers[AccountOf(e.Key)]
		if w == nil || strings.HasPrefix(e.MessageID, corebot.OwnIDs) {
			continue
		}
		if end := ends[e.Key]; end != nil {
			end()
			delete(ends, e.Key)
		}
		if e.Kind == live.TurnStarted {
			shown, end := context.WithTimeout(ctx, typingMost)
			ends[e.Key] = end
			showing.Go(func() {
				defer end()
				s.show(shown, w, e.Key)
			})
		}
	}
}

// show keeps one chat told until ctx ends, or the platform refuses.
func (s *Supervisor) show(ctx context.Context, w *watched, k corebot.Key) {
	timer := time.NewTimer(typingAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !w.gate.opens(k.Chat, time.Now()).IsZero() {
			return
		}
		if wait := s.outbox.drafts.grows(k, time.Now()); wait > 0 {
			timer.Reset(min(wait, typingLook))
			continue
		}
		call, done := context.WithTimeout(ctx, typingCall)
		again := time.Duration(0)
		err := guarded(func() (err error) {
			again, err = w.Channel.(Typer).Typing(call, k)
			return err
		})
		done()
		if err != nil {
			w.gate.refused(k.Chat, err, time.Now())
			if ctx.Err() == nil {
				s.log.Debug().Err(err).Str("chat", k.String()).Msg("typing is not shown")
			}
			return
		}
		timer.Reset(max(again, time.Second))
	}
}

// growing is an answer that is being made.
type growing struct {
	key     corebot.Key
	message string // that is answered
	more    chan struct{}
	end     context.CancelFunc
	ended   <-chan struct{} // it is shown no longer: it has ended, or took too long

	mu   sync.Mutex
	text strings.Builder
	seen int  // bytes of the text that are not shown again without more behind them
	over bool // its reply is sent

	edited time.Time // when its draft was edited last; zero: the chat shows none
}

// isOver says whether the answer is shown no longer.
func (g *growing) isOver() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

// overtaken notes that a message is sent into the chat. The answer gets no draft behind its own reply, nor behind the
// notice of its end: only if more of it comes.
func (g *growing) overtaken(o Outbound) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.edited = g.text.Len(), time.Time{}
	g.over = g.over || o.Kind == corebot.KindReply && slices.Contains(o.Answers(), g.message)
}

func (g *growing) add(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.text.Len() < draftBytes {
		g.text.WriteString(text)
	}
	g.again()
}

// again has the answer looked at.
func (g *growing) again() {
	select {
	case g.more <- struct{}{}:
	default:
	}
}

func (g *growing) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text.Reset()
	g.seen = 0
}

// shownAt notes when the draft was edited, unless a message has come below it meanwhile.
func (g *growing) shownAt(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen < g.text.Len() {
		g.edited = now
	}
}

// now is the text so far; empty: there is nothing to show.
func (g *growing) now() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := g.text.String()
	if g.over || len(text) <= g.seen || strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// Draft shows answers while they grow, in the chats of each [Editor], until ctx ends. Of turns that nobody in the chat
// asked for it shows nothing.
func (s *Supervisor) Draft(ctx context.Context, answers Answers) error {
	editors := map[Account]*watched{}
	for _, e := range s.entries {
		if _, edits := e.Channel.(Editor); edits {
			editors[e.Account] = e
		}
	}
	if s.outbox.drafts.store == nil {
		<-ctx.Done()
		return nil
	}
	var showing sync.WaitGroup
	defer showing.Wait()
	showing.Go(func() { s.outbox.drafts.sweep(ctx, func(a Account) *watched { return editors[a] }) })
	if len(editors) == 0 {
		<-ctx.Done()
		return nil
	}
	events, stop := answers.WatchAnswers()
	defer stop()
	all := map[corebot.Key]*growing{}
	for {
		var e live.Event
		select {
		case <-ctx.Done():
			return nil
		case e = <-events:
		}
		g := all[e.Key]
		switch {
		case e.Kind == live.Text && g != nil:
			g.add(e.Text)
		case e.Kind == live.TextReset && g != nil:
			g.reset()
		case e.Kind != live.TurnStarted && e.Kind != live.TurnEnded:
			continue
		case g != nil:
			g.end()
			delete(all, e.Key)
		}
		w := editors[AccountOf(e.Key)]
		if len(all) >= mostDrafts { // the word that an answer ended can be missed
			maps.DeleteFunc(all, func(_ corebot.Key, g *growing) bool { return g.isOver() })
		}
		if e.Kind != live.TurnStarted || w == nil || len(all) >= mostDrafts ||
			strings.HasPrefix(e.MessageID, corebot.OwnIDs) {
			continue
		}
		if every := w.Channel.(Editor).DraftEvery(e.Key); every > 0 {
			shown, end := context.WithTimeout(ctx, typingMost)
			g := &growing{
				key: e.Key, message: e.MessageID, more: make(chan struct{}, 1), end: end, ended: shown.Done(),
			}
			all[e.Key] = g
			ends := s.outbox.drafts.begins(g) // here, in the order of the turns
			showing.Go(func() {
				defer end()
				defer ends()
				s.outbox.drafts.grow(shown, w, g, every)
			})
		}
	}
}

// begins notes that an answer is being made, until it ends.
func (x *drafts) begins(g *growing) (ends func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made == nil {
		x.made = map[corebot.Key]*growing{}
	}
	x.made[g.key] = g
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.made[g.key] == g {
			delete(x.made, g.key)
		}
	}
}

// grow edits the draft of an answer until the answer is made. The edits become rarer, the longer it takes. After a
// refusal for their rate they are half as frequent; a second refusal ends them.
func (x *drafts) grow(ctx context.Context, w *watched, g *growing, every time.Duration) {
	shown, slowed := "", false
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.more:
		}
		if !pause(ctx, every) { // an answer that is made within that time has no draft
			return
		}
		if wait := time.Until(w.gate.opens(g.key.Chat, time.Now())); wait >= draftRarely ||
			wait > 0 && !pause(ctx, wait) || x.resting(g.key) || !w.editTurn(ctx) {
			return
		}
		text, err := x.show(ctx, w.Channel, g, shown)
		if err != nil {
			w.gate.refusedDraft(g.key.Chat, err, time.Now())
			_, tells := w.Channel.(Reconciler)
			// An ellipsis that nobody can ask for is not sent twice: the chat may show the first.
			slowed = slowed || !tells && errors.Is(err, ErrMayBeShown)
			if !x.refused(g.key, err, slowed) {
				return
			}
			slowed, every = true, 2*every
			g.again()
			continue
		}
		if text != shown {
			g.shownAt(time.Now())
			shown, every = text, min(every+every/4, max(every, draftRarely))
		}
	}
}

// grows is for how long the chat has sign enough that an answer is being made, because its draft was edited lately.
func (x *drafts) grows(k corebot.Key, now time.Time) time.Duration {
	x.mu.Lock()
	g := x.made[k]
	x.mu.Unlock()
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.edited.IsZero() {
		return 0
	}
	return g.edited.Add(typingBeside).Sub(now)
}

func (x *drafts) resting(k corebot.Key) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rest.has(k, time.Now())
}

// refused notes that an edit was not shown, and says whether the answer is shown on, by fewer edits.
func (x *drafts) refused(k corebot.Key, err error, slowed bool) (on bool) {
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.Class == corebot.RateLimited {
		if !slowed && f.RetryAfter < draftRarely {
			x.log.Debug().Err(err).Str("chat", k.String()).Msg("the answer is shown more rarely while it grows")
			return true
		}
		x.mu.Lock()
		x.rest.note(k, time.Now())
		x.mu.Unlock()
	}
	x.log.Debug().Err(err).Str("chat", k.String()).Msg("the answer is not shown while it grows")
	return false
}

// editTurn waits for the turn of an edit of a draft, where those of an account are counted together.
func (w *watched) editTurn(ctx context.Context) bool {
	c, together := w.Channel.(EditsTogether)
	if !together {
		return true
	}
	w.mu.Lock()
	now := time.Now()
	due := w.nextEdit
	if due.Before(now) {
		due = now
	}
	if due.Sub(now) > draftRarely { // turns that are taken and left would put it off for ever
		w.mu.Unlock()
		return false
	}
	w.nextEdit = due.Add(c.EditsApart())
	w.mu.Unlock()
	return !due.After(now) || pause(ctx, due.Sub(now))
}

// show has the draft of an answer show what there is of it, if that is more than it has shown. A request that was begun
// ends by itself: its message could otherwise change behind the reply.
func (x *drafts) show(ctx context.Context, c Channel, g *growing, shown string) (text string, err error) {
	d, err := x.of(ctx, g.key)
	if err != nil {
		return shown, err
	}
	defer x.release(d)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	text = g.now() // when nobody else has the draft: the reply can have been sent meanwhile
	switch {
	case text == "" || text == shown || ctx.Err() != nil:
		return shown, nil
	case d.unsure || d.Reply != "":
		return shown, errors.New("the draft waits for a reply")
	}
	e := c.(Editor)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftCall)
	defer cancel()
	if err := x.find(ctx, c, d); err != nil {
		return shown, err
	}
	if d.Shown != "" && d.Answers != g.message { // whose turn has ended without a reply
		if x.erase(ctx, e, d); d.Shown != "" {
			return shown, errors.New("an earlier draft cannot be taken back yet")
		}
	}
	if d.Shown == "" {
		if err := x.begin(ctx, c, d, g.message); err != nil {
			return shown, err
		}
	}
	o := ellipsis(d.Draft)
	o.Parts = corebot.TextPart(text)
	_, err = e.Edit(ctx, d.Shown, o)
	d.unsure = errors.Is(err, ErrMayBeShown) || ctx.Err() != nil
	if errors.Is(err, ErrGone) {
		x.forget(ctx, d)
	}
	fault.Point("draft", "edited")
	return text, err
}

// begin shows an empty draft, and stores which message of the platform it is.
func (x *drafts) begin(ctx context.Context, c Channel, d *draft, answers string) error {
	made := corebot.Draft{Key: d.Key, Answers: answers, Began: time.UnixMilli(time.Now().UnixMilli())}
	_, tells := c.(Reconciler)
	select {
	case x.begun <- struct{}{}: // the sweep looks at it later, also if its send breaks off
	default:
	}
	if tells {
		if err := x.store.Put(ctx, made); err != nil {
			return err
		}
		d.Draft = made
		fault.Point("draft", "begun")
	}
	receipt, err := c.Send(ctx, ellipsis(made))
	if err == nil && len(receipt.IDs) == 0 {
		err = errors.New("the platform gives a draft no id")
	}
	if err != nil {
		f := (*corebot.Failure)(nil)
		refused := []corebot.Class{corebot.Permanent, corebot.Cancelled, corebot.RateLimited}
		// Then nothing is shown. After another error the platform is asked.
		if errors.As(err, &f) && !errors.Is(err, ErrMayBeShown) && slices.Contains(refused, f.Class) {
			x.forget(context.WithoutCancel(ctx), d)
		}
		return err
	}
	fault.Point("draft", "shown")
	made.Shown = receipt.IDs[0]
	if err := x.store.Put(ctx, made); err != nil {
		if !tells { // nobody would find it again
			_ = c.(Editor).Erase(ctx, d.Key, made.Shown)
		}
		return err
	}
	d.Draft = made
	fault.Point("draft", "stored")
	return nil
}
