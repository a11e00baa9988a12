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

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// An answer can be shown while it grows. A message of the platform, the draft, is edited again and again, and at last
// the reply takes its place. The first piece of the reply is the last edit; the others follow as messages.
//
// A draft begins as an ellipsis. Its id is stored before any of the answer stands in it. So a crash never leaves a part
// of an answer that nobody finds again. For a platform that can tell what it shows, a [Reconciler], the draft is stored
// before its ellipsis is sent, too. There a crash leaves no ellipsis either. A repeated edit shows the same, so the
// first piece of such a reply is shown once on every platform.
//
// Drafts give way. A platform that refuses an edit for its rate gets the next ones half as often, and after a second
// refusal no more of that answer. An edit of which nobody knows whether it comes later has its draft erased before the
// reply is sent.

// Editor is the ability of a channel that can change what it has shown.
type Editor interface {
	// Edit shows what Send would show, in the place of a message that Send has shown in the same conversation. To edit
	// twice shows the same. An error that wraps [ErrGone] says that the message cannot be edited any more.
	Edit(ctx context.Context, id string, o Outbound) (Receipt, error)
	// Erase takes a message back. One that is not there any more is no error.
	Erase(ctx context.Context, k corebot.Key, id string) error
	// DraftEvery is how long to wait at least between two edits in a conversation; zero: drafts are not shown there.
	DraftEvery(k corebot.Key) time.Duration
}

// EditsTogether is the ability of an [Editor] whose platform counts the edits in all conversations of an account
// together. EditsApart is how long to wait at least between two edits of drafts, wherever they are. The edits by which
// replies take the place of their drafts do not wait, so EditsApart leaves room for them.
type EditsTogether interface {
	EditsApart() time.Duration
}

// ErrGone says that a message of the platform cannot be changed any more.
var ErrGone = errors.New("the message cannot be edited any more")

// DraftStore keeps drafts over a restart.
type DraftStore interface {
	All(ctx context.Context) ([]corebot.Draft, error)
	Put(ctx context.Context, d corebot.Draft) error
	Drop(ctx context.Context, k corebot.Key) error
	// Idle says whether no message of a conversation waits or is at work, in either direction.
	Idle(ctx context.Context, k corebot.Key) (bool, error)
}

const (
	draftText = "…"
	draftID   = "draft/"
	draftCall = 10 * time.Second // for one request
	// The edits of a long answer become as rare as that.
	draftRarely = 20 * time.Second

	draftBytes = 64 << 10 // of an answer: no platform shows more in one message
	mostDrafts = 64       // that grow at once; further answers are shown when they are done
	// For so long a platform can say that it shows no ellipsis, and show it a moment later.
	draftSettles = time.Minute
	// A chat that was refused edits for their rate sees no drafts for a while.
	draftRest = 5 * time.Minute
	// No reply takes the place of an older draft. A homeserver of Matrix may have deleted it for its age, and would
	// take an edit of it that nobody sees. Telegram edits nothing that is older than two days.
	draftOld = 12 * time.Hour
	// So often Corebot looks for drafts that nobody works on any more, as long as there are drafts.
	draftSweep = time.Minute
	// An account that has left the settings may come back. Its drafts are remembered for so long. So are those that a
	// platform does not let be taken back.
	draftKept = 7 * 24 * time.Hour
)

// drafts are those of all accounts. Without a store there are none.
type drafts struct {
	store DraftStore
	log   zerolog.Logger
	begun chan struct{} // has something when a draft has begun lately

	loading sync.Mutex
	loaded  bool

	mu   sync.Mutex
	open map[corebot.Key]*draft
	made map[corebot.Key]*growing // answers that are being made
	rest recent                   // chats that see no drafts for now
}

// draft is the draft of one conversation. turn holds one value while somebody changes it.
type draft struct {
	turn chan struct{}
	corebot.Draft
	unsure bool      // an edit was not answered: it can still come
	over   bool      // it is not in the list any more
	missed time.Time // when the platform first said that it does not show it
}

// of gives the draft of a conversation, to whoever releases it. A new one shows nothing.
func (x *drafts) of(ctx context.Context, k corebot.Key) (*draft, error) {
	if err := x.load(ctx); err != nil {
		return nil, err
	}
	for {
		x.mu.Lock()
		d := x.open[k]
		if d == nil {
			d = newDraft(corebot.Draft{Key: k})
			x.open[k] = d
		}
		x.mu.Unlock()
		select {
		case d.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !d.over {
			return d, nil
		}
		<-d.turn
	}
}

func newDraft(d corebot.Draft) *draft { return &draft{turn: make(chan struct{}, 1), Draft: d} }

// dies has the store note that the draft of a reply goes, before the reply is a dead letter. The draft shows a part of
// an answer, and looks like all of it. After a kill nobody could tell it from the draft of a reply that was sent. took
// erases the draft.
func (x *drafts) dies(ctx context.Context, e Editor, m corebot.Message) (took func()) {
	x.mu.Lock()
	_, is := x.open[m.Key]
	x.mu.Unlock()
	if !is {
		return func() {}
	}
	d, err := x.of(ctx, m.Key)
	if err != nil {
		return func() {}
	}
	// It may have died before it took the place, or after it had left it.
	its := d.Reply == "" && (d.Answers == "" || slices.Contains(OutboundOf(m, nil).Answers(), d.Answers))
	if d.none() || d.Reply != m.ID && !its {
		return func() { x.release(d) }
	}
	d.Reply, d.Answers = "", ""
	if err := x.store.Put(ctx, d.Draft); err != nil {
		x.log.Warn().Err(err).Str("chat", d.Key.String()).Msg("the draft of a dead letter may stay in its chat")
	}
	return func() {
		x.erase(ctx, e, d)
		x.release(d)
	}
}

// sweep takes back the drafts that nobody works on any more, until ctx ends. A killed process leaves such drafts, and
// so does a turn that ends without a reply. of gives the running account; nil: the settings do not have it.
func (x *drafts) sweep(ctx context.Context, of func(Account) *watched) {
	for {
		var again <-chan time.Time
		if x.sweepAll(ctx, of) {
			again = time.After(draftSweep)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-x.begun:
			if !pause(ctx, draftSweep) {
				return
			}
		}
	}
}

func (x *drafts) sweepAll(ctx context.Context, of func(Account) *watched) (again bool) {
	if err := x.load(ctx); err != nil {
		x.log.Warn().Err(err).Msg("it is not known which drafts an earlier run has left; Corebot looks again")
		return true
	}
	x.mu.Lock()
	all := slices.Collect(maps.Keys(x.open))
	x.mu.Unlock()
	for _, k := range all {
		if ctx.Err() == nil && x.sweepOne(ctx, k, of(AccountOf(k))) {
			again = true
		}
	}
	return again
}

// sweepOne looks at one draft, and says whether to look again.
func (x *drafts) sweepOne(ctx context.Context, k corebot.Key, w *watched) (again bool) {
	d := x.held(k)
	if d == nil {
		return false
	}
	select {
	case d.turn <- struct{}{}:
	default: // somebody works on it
		return true
	}
	if d.over {
		<-d.turn
		return false
	}
	defer x.release(d)
	e, edits := Editor(nil), false
	if w != nil {
		e, edits = w.Channel.(Editor)
	}
	if !edits && time.Since(d.Began) < draftKept {
		return false // the next start looks again
	}
	idle, err := x.store.Idle(ctx, k)
	log := x.log.With().Str("chat", k.String()).Logger()
	switch taken := d.Reply+d.Answers == ""; {
	case err != nil:
		log.Warn().Err(err).Msg("it is not known whether a draft is left over; Corebot looks again")
		return true
	case !idle && !taken:
		return edits
	case !edits:
		log.Warn().Msg("the draft of an account that has left the settings is forgotten; it may stay in its chat")
		x.forget(ctx, d)
	case d.Reply != "": // which was sent
		x.forget(ctx, d)
	case !w.up() || !w.gate.opens(k.Chat, time.Now()).IsZero():
		return true
	case x.find(ctx, w.Channel, d) == nil:
		x.erase(ctx, e, d)
	}
	if d.none() || time.Since(d.Began) < draftKept {
		return !d.none()
	}
	log.Warn().Msg("the platform does not let a draft be taken back; it stays in its chat and is forgotten")
	x.forget(ctx, d)
	return false
}

// none says whether a draft shows nothing, for certain.
func (d *draft) none() bool { return d.Shown == "" && d.Began.IsZero() }

// old says whether a draft began so long ago that the platform may not have it any more.
func (d *draft) old() bool { return !d.Began.IsZero() && time.Since(d.Began) > draftOld }

// release lets others change a draft. One that shows nothing is forgotten.
func (x *drafts) release(d *draft) {
	if d.none() {
		d.over = true
		x.mu.Lock()
		delete(x.open, d.Key)
		x.mu.Unlock()
	}
	<-d.turn
}

// load reads the drafts that an earlier process has left.
func (x *drafts) load(ctx context.Context) error {
	x.loading.Lock()
	defer x.loading.Unlock()
	if x.loaded {
		return nil
	}
	all, err := x.store.All(ctx)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open, x.loaded = map[corebot.Key]*draft{}, true
	x.rest.span, x.rest.max = draftRest, 1024
	for _, d := range all {
		x.open[d.Key] = newDraft(d)
	}
	return nil
}

// forget ends a draft. A caller that still has the draft goes on with an empty one.
func (x *drafts) forget(ctx context.Context, d *draft) {
	if d.none() {
		return
	}
	d.Draft, d.unsure, d.missed = corebot.Draft{Key: d.Key}, false, time.Time{}
	if err := x.store.Drop(ctx, d.Key); err != nil {
		x.log.Warn().Err(err).Str("chat", d.Key.String()).Msg("a draft is not forgotten; its next message does that")
	}
}

// ellipsis is the send by which a draft begins.
func ellipsis(d corebot.Draft) Outbound {
	o := Outbound{
		ID: draftID + d.Answers, Key: d.Key, Kind: corebot.KindReply, InReplyTo: d.Answers, CreatedAt: d.Began,
		Parts: corebot.TextPart(draftText),
	}
	o.IdempotencyKey = fmt.Sprintf("%s/%d", o.ID, o.CreatedAt.UnixMilli())
	return o
}

// find asks the platform for the ellipsis of a draft whose send was cut off. An error leaves the draft as it is. A
// server that was started anew can know its newest messages only after a while. So the word that there is no ellipsis
// counts when the server has said so for a while. After [ErrCannotTell] the draft is forgotten, and the error has its
// answer begin no other one: the chat may show the first.
func (x *drafts) find(ctx context.Context, c Channel, d *draft) error {
	if d.Shown != "" || d.none() {
		return nil
	}
	asked, can := c.(Reconciler)
	if !can { // it could tell when the draft began
		x.forget(ctx, d)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, draftCall)
	defer cancel()
	var r Receipt
	var shown bool
	err := guarded(func() (err error) {
		r, shown, err = asked.Delivered(ctx, ellipsis(d.Draft))
		return err
	})
	switch {
	case err != nil:
		if errors.Is(err, ErrCannotTell) {
			x.log.Warn().Err(err).Str("chat", d.Key.String()).Msg("an ellipsis may stay in its chat")
			x.forget(ctx, d)
		}
		return fmt.Errorf("ask whether a draft was begun: %w", err)
	case !shown && !d.missing(time.Now()):
		return errors.New("the platform does not show yet whether a draft was begun")
	case !shown || len(r.IDs) == 0:
		x.forget(ctx, d)
		return nil
	default:
		found := d.Draft
		found.Shown = r.IDs[0]
		if err := x.store.Put(ctx, found); err != nil {
			return err
		}
		d.Draft, d.missed = found, time.Time{}
		return nil
	}
}

// missing notes that the platform does not show a draft, and says whether that counts.
func (d *draft) missing(now time.Time) bool {
	if d.missed.IsZero() || now.Before(d.missed) {
		d.missed = now
	}
	return now.Sub(d.missed) >= draftSettles
}

// erase takes a draft back whose answer does not come in its place. It is locked. The store knows that before the
// platform does. Otherwise a reply after a crash could take the place of a message that is not there any more.
func (x *drafts) erase(ctx context.Context, e Editor, d *draft) {
	if d.Shown != "" {
		if d.Answers != "" {
			d.Answers = ""
			if err := x.store.Put(ctx, d.Draft); err != nil {
				x.log.Warn().Err(err).Str("chat", d.Key.String()).Msg("a reply after a crash can be lost in a draft")
			}
		}
		ctx, cancel := context.WithTimeout(ctx, draftCall)
		defer cancel()
		if err := guarded(func() error { return e.Erase(ctx, d.Key, d.Shown) }); err != nil {
			level := zerolog.WarnLevel
			if d.unsure { // and was so in the log
				level = zerolog.DebugLevel
			}
			x.log.WithLevel(level).Err(err).Str("chat", d.Key.String()).Msg("a draft stays in its chat")
			if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
				d.unsure = true // the next try, or the next message, takes it back
				return
			}
		}
	}
	x.forget(context.WithoutCancel(ctx), d)
}

// place is the message of the platform whose place an outbound message takes; empty: it is sent. The draft of another
// message is erased. Once a message has taken a place, it takes the same in each of its attempts. Until done is called
// no draft changes in the conversation: one that begins meanwhile would stand above the message.
//
// A draft that cannot be erased now is noted with the message. A channel that looks for a message by its text must not
// find the draft. A message whose beginning was sent has begun: it takes no other place. An earlier attempt may have
// sent the message beside the draft, while nobody told of the ellipsis. Then doubted is its first piece, otherwise nil.
func (x *drafts) place(ctx context.Context, c Channel, o *Outbound, begun bool, doubted *Outbound) (
	id string, done func(), err error,
) {
	x.mu.Lock()
	if g := x.made[o.Key]; g != nil {
		g.overtaken(*o)
	}
	x.mu.Unlock()
	d, err := x.of(ctx, o.Key)
	switch {
	case ctx.Err() != nil:
		return "", func() {}, err
	case err != nil: // a damaged table holds up no reply
		x.log.Error().Err(err).Str("chat", o.Key.String()).Msg("a message is sent without a look at drafts")
		return "", func() {}, nil
	}
	done = func() { x.release(d) }
	if err := x.find(ctx, c, d); err != nil {
		if !d.none() {
			x.log.Warn().Err(err).Str("chat", o.Key.String()).Msg(
				"a draft may stay in its chat; the next message looks again")
		}
		return "", done, nil
	}
	apart := func() {
		if x.erase(ctx, c.(Editor), d); d.Shown != "" {
			o.Shown = append(o.Shown, d.Shown)
		}
	}
	switch {
	case d.Reply == o.ID:
		return d.Shown, done, nil
	case d.Reply != "": // that reply was sent
		x.forget(ctx, d)
		return "", done, nil
	case d.Shown == "":
		return "", done, nil
	case begun || d.unsure || d.old() || o.Kind != corebot.KindReply || strings.TrimSpace(o.Text()) == "" ||
		!slices.Contains(o.Answers(), d.Answers):
		apart()
		return "", done, nil
	}
	if beside, err := isBeside(ctx, c, d.Shown, doubted); beside || err != nil {
		if err == nil {
			apart()
		}
		return "", done, err
	}
	taken := d.Draft
	taken.Reply = o.ID
	if err := x.store.Put(ctx, taken); err != nil {
		x.log.Error().Err(err).Str("chat", o.Key.String()).Msg("a reply is sent below its draft, which is erased")
		apart()
		return "", done, nil
	}
	d.Draft = taken
	return d.Shown, done, nil
}

// held is the draft of a conversation whose turn the caller has.
func (x *drafts) held(k corebot.Key) *draft {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open[k]
}

// left notes that a reply does not take the place of its draft after all. The caller has its turn.
func (x *drafts) left(ctx context.Context, k corebot.Key, gone bool) {
	d := x.held(k)
	if gone {
		x.forget(ctx, d)
		return
	}
	d.Reply, d.Answers = "", ""
	if err := x.store.Put(ctx, d.Draft); err != nil {
		x.log.Warn().Err(err).Str("chat", k.String()).Msg("a crash now can show a reply twice")
	}
}

// settled forgets the draft whose place a message has taken. A draft that could not be taken back before the message
// was sent is taken back now. The platform is in reach again, and the next message can be far.
func (x *drafts) settled(ctx context.Context, c Channel, m corebot.Message) {
	x.mu.Lock()
	_, is := x.open[m.Key]
	x.mu.Unlock()
	if !is {
		return
	}
	d, err := x.of(ctx, m.Key)
	if err != nil {
		return
	}
	defer x.release(d)
	e, edits := c.(Editor)
	switch left := d.unsure || d.Shown == "" && !d.none(); {
	case d.Reply == m.ID:
		x.forget(ctx, d)
	case d.Reply == "" && left && edits && x.find(ctx, c, d) == nil:
		x.erase(ctx, e, d)
	}
}

// Stream has the outbox and its supervisor show answers while they grow, on channels that are an [Editor].
func (o *Outbox) Stream(s DraftStore) {
	o.drafts.store, o.drafts.log, o.drafts.begun = s, o.log, make(chan struct{}, 1)
}
