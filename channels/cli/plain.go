package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// plain is the session without a terminal: lines in, replies out.
type plain struct {
	opts Options
	mail courier
	told bool // that a line has to wait

	replies   writes     // to Out
	complaint sync.Mutex // held while writing to Err

	// guards what follows; never held while writing, so that a full pipe does not keep the session from ending
	mu       sync.Mutex
	asked    map[string]struct{}
	mine     recent // ids of this session's messages
	shown    recent
	answered chan struct{} // a token when asked became empty
	refused  int
	first    error // the first refusal
}

func newPlain(o Options, mail courier) *plain {
	p := &plain{opts: o, asked: make(map[string]struct{}), answered: make(chan struct{}, 1)}
	p.mail = mail
	p.mail.patient = p.waits
	return p
}

// waits tells the user that a line has to wait for room. It does so once for each episode of the chat, and once in each
// session, because its user has not seen the notices of an earlier one. Lines are handed over one at a time.
func (p *plain) waits(err error) {
	if b := (*corebot.Busy)(nil); p.told && errors.As(err, &b) && !b.Tell {
		return
	}
	p.told = true
	p.complain("waiting: " + err.Error())
}

type inputLine struct {
	text string
	err  error
}

func (p *plain) run(ctx context.Context) error {
	lines := p.read(ctx)
	for {
		select {
		case <-ctx.Done():
			return p.result(ctx)
		case l, ok := <-lines:
			switch {
			case !ok || isLeave(l.text):
				return p.settle(ctx)
			case errors.Is(l.err, corebot.ErrTooLarge):
				p.refuse(l.err)
			case l.err != nil:
				return errors.Join(fmt.Errorf("read the input: %w", l.err), p.settle(ctx))
			case strings.TrimSpace(l.text) != "":
				p.say(ctx, l.text)
			}
		}
	}
}

// read gives the lines of the input and closes the channel at its end. The goroutine may stay in a blocked read: see
// the package doc.
func (p *plain) read(ctx context.Context) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		defer close(lines)
		r := newLineReader(p.opts.In, maxLine)
		for {
			text, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case lines <- inputLine{text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && !errors.Is(err, corebot.ErrTooLarge) {
				return
			}
		}
	}()
	return lines
}

// say hands one line to the door. It is expected before it is accepted, because its answer may come before Accept
// returns.
func (p *plain) say(ctx context.Context, text string) {
	l := newLetter(text)
	p.mu.Lock()
	p.asked[l.id] = struct{}{}
	p.mine.add(l.id)
	p.mu.Unlock()
	if err := p.mail.deliver(ctx, l); err != nil {
		p.forget(l.id)
		p.refuse(err)
	}
}

// forget takes a message off the list of those that wait for an answer.
func (p *plain) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, id)
	if len(p.asked) == 0 {
		select {
		case p.answered <- struct{}{}:
		default:
		}
	}
}

func (p *plain) refuse(err error) {
	p.mu.Lock()
	p.refused++
	if p.first == nil {
		p.first = err
	}
	p.mu.Unlock()
	p.complain(describe(err))
}

func (p *plain) complain(text string) {
	p.complaint.Lock()
	defer p.complaint.Unlock()
	_, _ = fmt.Fprintln(p.opts.Err, neutralise(text)) // nowhere left to report that this failed
}

// connection complains of what the user can do nothing about, since a script may wait for long.
func (p *plain) connection(text string, _ bool) { p.complain(text) }

// settle waits until every accepted message has its answer.
func (p *plain) settle(ctx context.Context) error {
	for p.open() > 0 {
		select {
		case <-p.answered:
		case <-ctx.Done():
			return p.result(ctx)
		}
	}
	return p.result(ctx)
}

func (p *plain) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func (p *plain) result(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.refused > 0 {
		err = fmt.Errorf("%d messages were refused; the first: %w", p.refused, p.first)
	}
	if n := len(p.asked); n > 0 {
		err = errors.Join(err, fmt.Errorf("left before %d of the messages had their answers; they are kept and will "+
			"be answered all the same (%w)", n, context.Cause(ctx)))
	}
	return err
}

// show prints one reply or notice, once. Only what it reports as printed is answered: a session that ended earlier
// would leave the reply in the queue, and the next one would print it again.
func (p *plain) show(ctx context.Context, m channels.Outbound) error {
	if err := p.replies.do(ctx, m.ID, func() error { return p.print(m) }); err != nil {
		return err
	}
	for _, id := range m.Answers() {
		p.forget(id)
	}
	return nil
}

// print writes to Out what was not written yet. A reply to a message of another session is announced on Err, because
// Out belongs to whoever piped the questions.
func (p *plain) print(m channels.Outbound) error {
	shown, foreign := p.known(m)
	if shown {
		return nil
	}
	if foreign {
		p.complain("the answer to the earlier message " + m.InReplyTo + ":")
	}
	if _, err := io.WriteString(p.opts.Out, neutralise(m.Text())+"\n"); err != nil {
		return &corebot.Failure{Class: corebot.Transient, Err: fmt.Errorf("write a reply: %w", err)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.add(m.ID)
	return nil
}

// known says whether m was printed, and whether it answers a message of another session.
func (p *plain) known(m channels.Outbound) (shown, foreign bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.has(m.ID), m.InReplyTo != "" && !slices.ContainsFunc(m.Answers(), p.mine.has)
}

// isLeave holds for the two commands that are the terminal's own. Every other slash command goes through the door.
func isLeave(text string) bool {
	t := strings.TrimSpace(text)
	return t == "/quit" || t == "/exit"
}

// describe is an error with its hint, as a person reads it.
func describe(err error) string {
	if hint := corebot.HintOf(err); hint != "" {
		return err.Error() + " (" + hint + ")"
	}
	return err.Error()
}
