package channels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// FileKeeper keeps the files of messages.
type FileKeeper interface {
	// Keep stores a content before its message is published. A content that is too large is [corebot.ErrTooLarge]. A
	// reference with a fault says why the content is not kept.
	Keep(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
		corebot.Part, corebot.AttachedFile, error)
	// KeepHeard is Keep for a message that is only context. Such files are smaller, and leave half of the room to those
	// that people send to the bot.
	KeepHeard(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
		corebot.Part, corebot.AttachedFile, error)
	// DisplayName makes a name that a sender chose fit to be shown, and to name a file.
	DisplayName(name string) string
	// Had says whether a conversation has had a message of this id: its files are not fetched again.
	Had(ctx context.Context, k corebot.Key, id string) (bool, error)
}

// FileOpener opens files of a chat, for what is sent there. The caller closes them.
type FileOpener interface {
	Open(ctx context.Context, k corebot.Key, hash string) (*os.File, corebot.AttachedFile, error)
}

// Attached is the content of a part of an incoming message: bytes that came with it, or a way to get them.
type Attached struct {
	Part int    // the part that has this content, counted from 0 among the parts that are no text
	Data []byte `json:",omitempty"`

	// Missing says why there is no content, such as that it came damaged. The part says so.
	Missing string `json:"-"`

	// Open gives bytes that came with the message, of a channel that does not hold them in memory.
	Open func() (io.ReadCloser, error) `json:"-"`
	// Fetch gets the bytes from the platform. It asks only hosts that the settings of the account name, or that the
	// platform documents as its own. The door calls it after it has admitted the sender.
	Fetch func(ctx context.Context) (io.ReadCloser, error) `json:"-"`

	alive func() // notes that the account is not deaf; nil: nobody notes it
}

const (
	// MaxFiles is how many files of one message are kept.
	MaxFiles = 20

	fetchTime  = time.Minute      // for one file
	fetchIdle  = 15 * time.Second // without a byte of it
	fetchTries = 2                // of one file
	fetchPause = 2 * time.Second  // between two tries, unless [DoorOptions] say otherwise
	batchTime  = 2 * time.Minute  // for all files of a batch: its messages wait meanwhile
)

// ErrForged says that a content is not what its sender has sent.
var ErrForged = errors.New("the content of the file was changed or cut on its way from its sender")

// errHad says that a message is a duplicate, before its files are fetched again.
var errHad = errors.New("the message was accepted before")

// keep stores the files of a message that its sender may send. A content that cannot be fetched, or is too large, is a
// part that says so. A hash that came from outside is dropped: it would name what another chat has.
func (d *FrontDoor) keep(ctx context.Context, in Incoming, m *corebot.Message, until time.Time) error {
	if d.opts.Files == nil || len(corebot.Attachments(m.Parts)) == 0 {
		return nil
	}
	m.Parts = slices.Clone(m.Parts)
	var places []int
	for i, p := range m.Parts {
		if p.Type != corebot.PartText {
			places = append(places, i)
			m.Parts[i].Hash = ""
			m.Parts[i].Name = d.opts.Files.DisplayName(p.Name)
		}
	}
	if m.Direction == corebot.Control || len(in.Files) == 0 {
		return nil
	}
	if slices.ContainsFunc(in.Files, func(a Attached) bool { return a.Fetch != nil }) {
		if had, err := d.opts.Files.Had(ctx, m.Key, m.ID); err != nil || had {
			return errors.Join(err, onlyIf(had, errHad))
		}
	}
	for n, a := range in.Files {
		if a.Part < 0 || a.Part >= len(places) {
			return fmt.Errorf("%w: a file without a part", corebot.ErrInvalid)
		}
		p := &m.Parts[places[a.Part]]
		if n >= MaxFiles {
			p.Text = fmt.Sprintf("it is not kept: of one message %d files are", MaxFiles)
			continue
		}
		if p.Text = a.Missing; p.Text != "" {
			continue
		}
		kept, err := d.keepOne(ctx, m, *p, a, until)
		if err != nil {
			return err
		}
		*p = kept
	}
	return nil
}

func onlyIf(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

func (d *FrontDoor) keepOne(ctx context.Context, m *corebot.Message, p corebot.Part, a Attached, until time.Time) (
	corebot.Part, error,
) {
	if a.Fetch != nil {
		return d.fetch(ctx, m, p, a, until)
	}
	open := a.Open
	if open == nil {
		open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.Data)), nil }
	}
	content, err := open()
	if err != nil {
		return p, fmt.Errorf("%w: the file %q cannot be read: %w", corebot.ErrInvalid, p.Name, err)
	}
	defer content.Close() //nolint:errcheck // only read
	kept, _, err := d.keeps(m)(ctx, m.Key, m.ID, p, content)
	if bad := sourceFailure(nil); errors.As(err, &bad) {
		err = fmt.Errorf("%w: the file %q cannot be read: %w", corebot.ErrInvalid, p.Name, err)
	}
	return kept, err
}

// keeps is how the contents of a message are kept.
func (d *FrontDoor) keeps(m *corebot.Message) func(context.Context, corebot.Key, string, corebot.Part, io.Reader) (
	corebot.Part, corebot.AttachedFile, error,
) {
	if m.Kind == corebot.KindHeard {
		return d.opts.Files.KeepHeard
	}
	return d.opts.Files.Keep
}

// sourceFailure is the error of where a content comes from, unlike one of the store.
type sourceFailure interface {
	error
	OfSource()
}

// fetch gets a content from the platform, with a second try. The time for the files of a batch can be over before it,
// or before the end of a wait that the platform asks for.
func (d *FrontDoor) fetch(ctx context.Context, m *corebot.Message, p corebot.Part, a Attached, until time.Time) (
	corebot.Part, error,
) {
	var err error
	for try := range fetchTries {
		a.flows()
		if try > 0 {
			wait := max(d.opts.FetchPause, askedWait(err))
			if wait >= time.Until(until) || !pause(ctx, wait) {
				break
			}
		}
		var kept corebot.Part
		kept, err = d.fetchOnce(ctx, m, p, a, until)
		bad := sourceFailure(nil)
		switch {
		case err == nil:
			return kept, nil
		case errors.Is(err, corebot.ErrTooLarge):
			p.Text = "it is not kept: it is larger than a file may be"
			if m.Kind == corebot.KindHeard {
				p.Text = "it is not kept: it is larger than a file of a message may be that is only context"
			}
			return p, nil
		case ctx.Err() == nil && !errors.As(err, &bad):
			return p, err
		}
	}
	if ctx.Err() != nil { // the message comes again
		return p, context.Cause(ctx)
	}
	d.opts.Log.Warn().Err(err).Str("chat", m.Key.String()).Str("message", m.ID).Msg("a file was not fetched")
	if p.Text = "it could not be fetched from the platform"; errors.Is(err, ErrForged) {
		p.Text = "it is not kept: it was changed or cut on its way from its sender"
	}
	return p, nil
}

func (d *FrontDoor) fetchOnce(ctx context.Context, m *corebot.Message, p corebot.Part, a Attached, until time.Time) (
	corebot.Part, error,
) {
	end := time.Now().Add(fetchTime)
	if until.Before(end) {
		end = until
	}
	ctx, cancel := context.WithDeadlineCause(ctx, end, errors.New("the platform took too long to give it"))
	defer cancel()
	ctx, stall := context.WithCancelCause(ctx)
	defer stall(nil)
	timer := time.AfterFunc(fetchIdle, func() { stall(errors.New("the platform gives nothing of it any more")) })
	defer timer.Stop()
	content, err := a.Fetch(ctx)
	if err != nil {
		return p, &unfetched{cmp.Or(context.Cause(ctx), err)}
	}
	defer content.Close() //nolint:errcheck // only read
	kept, _, err := d.keeps(m)(ctx, m.Key, m.ID, p, &flowing{content, func() {
		timer.Reset(fetchIdle)
		a.flows()
	}})
	return kept, err
}

// flowing is a content that is being fetched. Each piece of it shows that the platform is there.
type flowing struct {
	io.Reader
	more func()
}

func (f *flowing) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if n > 0 {
		f.more()
	}
	return n, err
}

// flows notes that the platform gives something: the account is not deaf while files are fetched.
func (a Attached) flows() {
	if a.alive != nil {
		a.alive()
	}
}

// notingFiles has the files of messages note that the account is alive.
func (w *watched) notingFiles(in *Incoming) {
	in.Files = slices.Clone(in.Files)
	for i := range in.Files {
		in.Files[i].alive = w.alive
	}
}

// unfetched is a content that the platform did not begin to give.
type unfetched struct{ error }

func (*unfetched) OfSource() {}

func (u *unfetched) Unwrap() error { return u.error }

// pause waits, and says whether the wait was not cut short.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
