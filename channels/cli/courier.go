package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/mention"
)

const (
	acceptAttempts = 6 // with the pauses below: about six seconds before the user is told
	firstPause     = 200 * time.Millisecond
	longestPause   = 5 * time.Second
)

// letter is a message on its way to the door. The id is its idempotency key: it stays the same in every attempt.
type letter struct {
	id, text string // as typed

	body     string // the text with the files that it attaches; empty: the text alone
	attached string // names the files, for people
	enclosed *enclosure
}

// enclosure are the files of a letter that are no text.
type enclosure struct {
	parts []corebot.Part
	files []channels.Attached
}

func (e *enclosure) add(f mention.File) {
	e.parts = append(e.parts, corebot.Part{Type: corebot.PartFile, Name: filepath.Base(f.Name)})
	e.files = append(e.files, channels.Attached{Part: len(e.files), Data: f.Data})
}

// attach reads the files that a prompt mentions. A command attaches none, and neither does a letter that has its body.
func (l letter) attach(files mention.Reader) (letter, error) {
	kind := corebot.Read(l.text).Kind
	if l.body != "" || kind != corebot.KindPrompt && kind != corebot.KindOpening {
		return l, nil
	}
	found, err := files.Read(l.text)
	if err != nil || len(found) == 0 {
		return l, err
	}
	var names []string
	for _, f := range found {
		names = append(names, fmt.Sprintf("%s (%d bytes)", f.Name, len(f.Text)+len(f.Data)))
		if f.Data == nil {
			continue
		}
		if l.enclosed == nil {
			l.enclosed = &enclosure{}
		}
		l.enclosed.add(f)
	}
	l.body, l.attached = mention.Attach(l.text, found), strings.Join(names, ", ")
	return l, nil
}

// newLetter gives a text its id. UUIDv7 can only fail where the system has no randomness, and Go ends the program
// before that.
func newLetter(text string) letter {
	return letter{id: uuid.Must(uuid.NewV7()).String(), text: text}
}

// courier carries letters to the door, and again where another attempt may help.
type courier struct {
	door channels.Accepter
	opts Options

	// patient, if set, is called with a letter's first refusal for want of room, and from then on the courier waits
	// until there is room. Nil: such a refusal is the sender's.
	patient func(error)
}

// deliver returns nil when the letter is on disk: accepted now, or by an earlier attempt whose answer was lost.
func (c courier) deliver(ctx context.Context, l letter) error {
	in := channels.Incoming{
		ID: l.id, Channel: Channel, Account: DefaultAccount, Chat: c.opts.Chat,
		SenderID: c.opts.UserID, SenderName: c.opts.UserName, Parts: corebot.TextPart(cmp.Or(l.body, l.text)),
		Interactive: c.opts.Interactive,
	}
	if l.enclosed != nil {
		in.Parts, in.Files = append(in.Parts, l.enclosed.parts...), l.enclosed.files
	}
	told := false
	for attempt := 1; ; attempt++ {
		_, err := c.door.Accept(ctx, in)
		switch {
		case err == nil:
			return nil
		case c.patient != nil && noRoom(err):
			if !told {
				told = true
				c.patient(err)
			}
		case !worthAnotherTry(err) || attempt >= acceptAttempts:
			return err
		}
		if !pause(ctx, pauseAfter(attempt, err)) {
			return fmt.Errorf("%w (given up: %w)", err, context.Cause(ctx))
		}
	}
}

func noRoom(err error) bool {
	return errors.Is(err, corebot.ErrLaneFull) || errors.Is(err, corebot.ErrCommandRate) ||
		errors.Is(err, corebot.ErrOverloaded) || errors.Is(err, corebot.ErrDiskFull)
}

// worthAnotherTry holds for a commit that may have happened (the id makes asking again safe) and for what calls itself
// transient. An error without a class is not one of the door's: it is shown.
func worthAnotherTry(err error) bool {
	if errors.Is(err, corebot.ErrCommitUnknown) {
		return true
	}
	var f *corebot.Failure
	return errors.As(err, &f) && (f.Class == corebot.Transient || f.Class == corebot.RateLimited)
}

func pauseAfter(attempt int, err error) time.Duration {
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.RetryAfter > 0 {
		return min(f.RetryAfter, longestPause)
	}
	if b := (*corebot.Busy)(nil); errors.As(err, &b) && b.RetryAfter > 0 {
		return min(b.RetryAfter, longestPause)
	}
	return min(firstPause<<min(attempt-1, 10), longestPause)
}

// pause reports whether it lasted: false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
