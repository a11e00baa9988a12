package channels

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/runes"
)

// A message that is longer than its channel takes is sent in pieces. The journal keeps the receipt of each: which bytes
// of the text were sent, and the platform's ids. The receipt of the last piece rides on the settle. The next attempt
// splits the rest of the text, by the limit that the channel then has. A piece depends on the text and the place where
// it begins, never on the number of pieces before it.
//
// On a channel with [FilesApart] the files follow the text, and each is a piece. The place of a file is the length of
// the text and the number of files before it. So a place tells how much of a message was sent, its files included.

// extent is how far the places of a message go, and how far those of its text.
func extent(whole Outbound, c Channel) (text, end int) {
	text = len(whole.Text())
	if _, apart := c.(FilesApart); apart {
		return text, text + len(corebot.Attachments(whole.Parts))
	}
	return text, text
}

// resumeAt is the place in the text where the sending goes on. The place is unknown if an earlier version of Corebot
// began the message. Such a version only counted pieces, and did not store the limit that their lengths followed from.
// Then the whole text is sent: to show some of it twice is better than to cut it.
func resumeAt(d corebot.Delivery, c Channel) (place int, known bool) {
	_, end := extent(OutboundOf(d.Message, c), c)
	known = true
	for _, s := range d.Journal {
		if s.Kind != corebot.StepPart {
			continue
		}
		if known = s.Sent != nil && s.Sent.From == place && s.Sent.To > place && s.Sent.To < end; known {
			place = s.Sent.To
		} else {
			place = 0
		}
	}
	return place, known
}

// next is the piece that begins at a place, and the place where the next one begins.
func (o Outbound) next(from, text, end, limit int) (piece Outbound, to int) {
	if from >= text && end > text { // a file
		o.Before, o.IdempotencyKey = o.Text(), pieceKey(o.ID, from, from+1)
		o.Parts, o.Notice, o.Buttons = corebot.Attachments(o.Parts)[from-text:][:1], nil, nil
		return o, from + 1
	}
	if end > text {
		o.Parts = corebot.TextPart(o.Text())
	}
	part, to := nextPart(o.Text(), from, limit)
	return o.piece(part, from, to), to
}

// sendPieces sends the rest of the message while the lease is kept. It begins no further piece when ctx has ended. The
// result last is the receipt of the last piece, which is stored with the settle; nil if the platform gave no id.
func (r *run) sendPieces(ctx, kept context.Context, s *send, d corebot.Delivery) (last *corebot.Step, err error) {
	limit, channel := 0, r.accounts[d.Message.Key.Account].Channel
	if splitter, ok := channel.(Splitter); ok {
		limit = splitter.MaxMessageBytes()
	}
	whole := OutboundOf(d.Message, channel)
	for _, s := range d.Journal {
		if s.Sent != nil {
			whole.Shown = append(whole.Shown, s.Sent.IDs...)
		}
	}
	text, end := extent(whole, channel)
	resumed, _ := resumeAt(d, channel)
	doubt := r.doubts.about(d, time.Now())
	var doubted *Outbound
	if doubt {
		first, _ := whole.next(resumed, text, end, limit)
		doubted = &first
	}
	place, done, err := r.placeOf(kept, channel, &whole, resumed, doubted)
	defer done()
	if err != nil {
		return nil, err
	}
	for from, n := resumed, len(d.Journal); ; n++ {
		if from > resumed && ctx.Err() != nil {
			return nil, corebot.ErrShutdown
		}
		piece, to := whole.next(from, text, end, limit)
		step := corebot.Step{Position: n, Kind: corebot.StepPart, State: corebot.StepDone, StartedAt: time.Now()}
		fault.Point("send", "before")
		receipt, err := r.sendFirst(kept, d, channel, s, piece, place, from == resumed && doubt)
		place = ""
		if shown := len(piece.Text()); shown == 0 && err != nil {
			to = from
		} else if reached := receipt.reached(piece.Text(), err); reached < shown {
			to = from + reached
		}
		step.Sent, step.EndedAt = &corebot.Sent{From: from, To: to, IDs: receipt.IDs}, time.Now()
		if err == nil {
			fault.Point("send", "after")
		}
		switch {
		case err != nil && to == from: // nothing was shown
			return nil, err
		case err == nil && to == end:
			if len(receipt.IDs) == 0 {
				return nil, nil
			}
			return &step, nil
		}
		if failed := r.journal.Record(kept, d, step); failed != nil || err != nil {
			return nil, errors.Join(err, failed)
		}
		r.drafts.stands(kept, d.Message)
		from = to
	}
}

// sendOne sends a piece. In the place of a file that the platform refuses for good, it sends a text that says why.
func (r *run) sendOne(kept context.Context, d corebot.Delivery, c Channel, s *send, o Outbound, place string,
	doubt bool,
) (Receipt, error) {
	receipt, err := r.sendPiece(kept, d, c, s, o, place, doubt)
	p, is := o.File()
	f := (*corebot.Failure)(nil)
	if !is || !errors.As(err, &f) || f.Class != corebot.Permanent || errors.Is(err, ErrMayBeShown) {
		return receipt, err
	}
	r.log.Warn().Err(err).Str("chat", d.Message.Key.String()).Str("message_id", d.Message.ID).Str("file",
		p.MediaType).Msg("a file was refused, and is named in its place")
	o.IdempotencyKey += "/named"
	o.Kind = corebot.KindNotice // which is shown as it is
	o.Parts, o.Before = corebot.TextPart(Named(p, "could not be sent here: "+runes.Head(f.Err.Error(), maxWhy))), ""
	if receipt, err := r.sendPiece(kept, d, c, s, o, "", doubt); err != nil {
		return Receipt{}, err
	} else {
		return Receipt{IDs: receipt.IDs}, nil
	}
}

// fileSlot is how long the send of a file may take at least.
const fileSlot = 2 * time.Minute

// maxWhy bounds the reason for which a file is not shown, in bytes.
const maxWhy = 500

// sendPiece gives one Send its slot, and asks first whether a piece in doubt is shown. It turns a panic of
// a channel into this message's failure: the process must not die of it again and again.
//
// In the place of a draft the piece is an edit. An edit shows nothing twice, so it is neither asked about nor
// ambiguous.
func (r *run) sendPiece(kept context.Context, d corebot.Delivery, c Channel, s *send, o Outbound, place string,
	doubt bool,
) (receipt Receipt, err error) {
	least := time.Duration(0)
	if _, is := o.File(); is {
		least = fileSlot
	}
	ctx, end := s.begin(kept, least)
	defer end()
	if by, bounded := ctx.Deadline(); bounded {
		r.sending.Begin(d.Lease, by)
		defer r.sending.End(d.Lease)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if place != "" {
		defer func() { err = NotShown(err) }()
	}
	switch {
	case place != "":
	case doubt:
		if receipt, shown, err := r.delivered(ctx, d, c, o); shown || err != nil {
			return receipt, err
		}
	case r.strays(d):
		if err := r.inReach(ctx, d, c); err != nil {
			return Receipt{}, err
		}
	}
	if receipt, err = r.showIn(ctx, c, place, o); err == nil {
		return receipt, nil
	}
	f := (*corebot.Failure)(nil)
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.As(err, &f) && f.Class == corebot.Cancelled, errors.Is(err, ErrHalfSent):
		return receipt, err // the channel knows what was shown
	case errors.Is(cause, corebot.ErrLeaseLost):
		return receipt, fmt.Errorf("%w: %w", cause, err)
	default:
		return receipt, fmt.Errorf("%w; %w: %w", cause, ErrMayBeShown, err)
	}
}

// Split cuts a text into parts of at most limit bytes, at the last paragraph, line, sentence or word that fits, never
// inside a rune. Joined again without the white space at the cuts, the parts are the text. A limit under 1 means no
// limit.
func Split(text string, limit int) []string {
	var parts []string
	for from := 0; ; {
		part, to := nextPart(text, from, limit)
		if part != "" || text == "" {
			parts = append(parts, part)
		}
		if to == len(text) {
			return parts
		}
		from = to
	}
}

// nextPart is the part of a text that begins at a place, and the place where the next part begins. After the last part
// this is the end of the text. A part is blank only where nothing but white space is left.
func nextPart(text string, from, limit int) (part string, to int) {
	for rest := text[from:]; limit > 0 && len(rest) > limit; rest = text[to:] {
		n := cut(rest, limit)
		to = len(text) - len(strings.TrimLeft(rest[n:], " \n"))
		if part = strings.TrimRight(rest[:n], " \n"); part != "" || to == len(text) {
			return part, to
		}
	}
	return text[max(from, to):], len(text)
}

// cut is where the first part ends. A boundary in the first half would make too small a part.
func cut(text string, limit int) int {
	for _, boundary := range []string{"\n\n", "\n", ". ", " "} {
		if i := strings.LastIndex(text[:limit], boundary); i >= limit/2 {
			return i + len(boundary)
		}
	}
	for n := limit; n > 0 && n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	_, size := utf8.DecodeRuneInString(text)
	return max(size, limit) // a limit smaller than a rune, and a whole rune all the same; or bytes that are no runes
}

// placeOf is the message of the platform whose place the beginning of a message takes; empty: it is sent. done is
// called when the attempt has ended.
func (r *run) placeOf(ctx context.Context, c Channel, o *Outbound, resumed int, doubted *Outbound) (
	id string, done func(), err error,
) {
	if _, edits := c.(Editor); !edits || r.drafts.store == nil {
		return "", func() {}, nil
	}
	id, done, err = r.drafts.place(ctx, c, o, resumed > 0, doubted)
	if resumed > 0 { // its beginning stands there
		id = ""
	}
	return id, done, err
}

// stands forgets the draft whose place the beginning of a message has taken, once the journal has that. Such a message
// can be a dead letter for what follows, and its beginning stays. The caller has the turn of the draft.
func (x *drafts) stands(ctx context.Context, m corebot.Message) {
	if d := x.held(m.Key); d != nil && d.Reply == m.ID {
		x.forget(ctx, d)
	}
}

// editing says whether the next send of a message repeats an edit. Then the message has taken the place of its draft,
// and nothing of it was sent behind that place. So a crash in the last edit leaves no doubt.
func (r *run) editing(ctx context.Context, d corebot.Delivery) bool {
	if _, edits := r.channelOf(d).(Editor); !edits || r.drafts.store == nil || len(d.Journal) > 0 {
		return false
	}
	of, err := r.drafts.of(ctx, d.Message.Key)
	if err != nil {
		return false
	}
	defer r.drafts.release(of)
	return of.Reply == d.Message.ID
}

// showIn shows a piece in the place of a message. An edit without an answer is made again: it shows nothing twice.
func (r *run) showIn(ctx context.Context, c Channel, place string, o Outbound) (Receipt, error) {
	if place == "" {
		return c.Send(ctx, o)
	}
	receipt, err := c.(Editor).Edit(ctx, place, o)
	if err == nil && len(receipt.IDs) == 0 {
		receipt.IDs = []string{place}
	}
	return receipt, err
}

// sendFirst sends the first piece of an attempt. If the draft is gone whose place the piece takes, it is a message.
func (r *run) sendFirst(kept context.Context, d corebot.Delivery, c Channel, s *send, o Outbound, place string,
	doubt bool,
) (Receipt, error) {
	receipt, err := r.sendOne(kept, d, c, s, o, place, doubt)
	f, gone := (*corebot.Failure)(nil), errors.Is(err, ErrGone)
	refused := errors.As(err, &f) && f.Class == corebot.Permanent && !errors.Is(err, ErrMayBeShown)
	if place == "" || !gone && !refused {
		return receipt, err
	}
	r.log.Warn().Err(err).Str("chat", o.Key.String()).Msg("a draft cannot be edited; its answer is sent as a message")
	r.drafts.left(kept, o.Key, gone) // before the send, which cannot be repeated as an edit can
	o.Shown = append(slices.Clone(o.Shown), place)
	receipt, err = r.sendOne(kept, d, c, s, o, "", doubt)
	refused = errors.As(err, &f) && f.Class == corebot.Permanent && !errors.Is(err, ErrMayBeShown)
	if e, is := c.(Editor); is && (err == nil || refused) {
		r.drafts.erase(kept, e, r.drafts.held(o.Key))
	}
	return receipt, err
}
