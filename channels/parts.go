package channels

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// A message that is longer than its channel takes is sent in parts. After each part but the last the journal notes
// which bytes of the text were sent; the last part rides on the settle. The next attempt splits what is left of the
// text, by the limit that the channel has by then: a part is made of the text and the place where it begins, and never
// of how many parts came before.

// resumeAt is the place in the text where the sending goes on. It is not known when an earlier version of Corebot has
// begun the message: that version only counted parts, and their lengths followed from a limit that nobody has kept.
// Then the whole text is sent: to show some of it twice is better than to cut it.
func resumeAt(d corebot.Delivery) (place int, known bool) {
	text := len(d.Message.Text())
	known = true
	for _, s := range d.Journal {
		if s.Kind != corebot.StepPart {
			continue
		}
		if known = s.Sent != nil && s.Sent.From == place && s.Sent.To > place && s.Sent.To < text; known {
			place = s.Sent.To
		} else {
			place = 0
		}
	}
	return place, known
}

// partID is the idempotency key of a part. It names the bytes of the part: a platform that has shown them does not show
// them again, in whatever run they come, and it never takes other bytes for them. A whole message has its own id.
func partID(m corebot.Message, from, to int) string {
	if from == 0 && to == len(m.Text()) {
		return m.ID
	}
	return corebot.Delivery{Message: m, Run: 1}.RunID() + "/" + strconv.Itoa(from) + "-" + strconv.Itoa(to)
}

// sendParts sends what is still to be sent, while the lease is kept, and begins no further part when ctx has ended.
func (r *run) sendParts(ctx, kept context.Context, s *send, d corebot.Delivery) error {
	limit := 0
	if splitter, ok := r.channel.(Splitter); ok {
		limit = splitter.MaxMessageBytes()
	}
	text := d.Message.Text()
	resumed, _ := resumeAt(d)
	for from, n := resumed, len(d.Journal); ; n++ {
		if from > resumed && ctx.Err() != nil {
			return corebot.ErrShutdown
		}
		part, to := nextPart(text, from, limit)
		m := d.Message
		m.ID = partID(d.Message, from, to)
		m.Parts = corebot.TextPart(part)
		started := time.Now()
		fault.Point("send", "before")
		if err := r.sendPart(kept, s, m); err != nil {
			return err
		}
		fault.Point("send", "after")
		if to == len(text) {
			return nil
		}
		step := corebot.Step{
			Position: n, Kind: corebot.StepPart, State: corebot.StepDone, Sent: &corebot.Sent{From: from, To: to},
			StartedAt: started, EndedAt: time.Now(),
		}
		if err := r.journal.Record(kept, d, step); err != nil {
			return err
		}
		from = to
	}
}

// errCutOff says that Corebot has ended a send before the platform answered: the part may have been shown.
var errCutOff = errors.New("it may have been sent")

// sendPart gives one Send its slot. It turns a panic of a channel into this message's failure: the process must not die
// of it again and again.
func (r *run) sendPart(kept context.Context, s *send, m corebot.Message) (err error) {
	ctx, end := s.begin(kept)
	defer end()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err = r.channel.Send(ctx, m); err == nil {
		return nil
	}
	f := (*corebot.Failure)(nil)
	switch cause := context.Cause(ctx); {
	case cause == nil, errors.As(err, &f) && f.Class == corebot.Cancelled: // the channel knows that nothing was shown
		return err
	case errors.Is(cause, corebot.ErrLeaseLost):
		return fmt.Errorf("%w: %w", cause, err)
	default:
		return fmt.Errorf("%w; %w: %w", cause, errCutOff, err)
	}
}
