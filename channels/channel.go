package channels

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// Channel connects Corebot to one place where people talk.
//
// Run receives: it hands every incoming message to the door. It blocks until ctx ends or the connection is beyond
// repair. The supervisor runs it again after a backoff. Send delivers one [Outbound] and returns its [Receipt] when the
// platform has it; a [*corebot.Failure] tells the outbox whether to try again. Send is called from one goroutine at a
// time per conversation. It must return soon after its ctx ends: at its deadline, or when the lease is lost
// ([corebot.ErrLeaseLost] is the cause). The deadline is 30 s at least; it is shorter for a conversation whose last
// message failed, and for one that holds up others of its account. Until Send returns, its message stays claimed and
// the conversation waits.
//
// A Send that ends with its ctx may have shown the message. A [*corebot.Failure] of class Cancelled says that it has
// not, and that the message waits without having used up an attempt. A Send that does not know for another reason wraps
// [ErrMayBeShown].
//
// A failure of class RateLimited closes the chat for as long as the failure asks to wait. The third such chat closes
// the account.
type Channel interface {
	Run(ctx context.Context, door Door) error
	Send(ctx context.Context, o Outbound) (Receipt, error)
}

// Door is where the messages of one account enter. Channel and account of an [Incoming] may be empty there.
//
// Accept returns after the commit that stored the message has been fsynced, and only then may a channel acknowledge it.
// Its errors are those of corebot.Receipt, corebot.ErrInvalid and corebot.ErrTooLarge. One for want of room is a
// [*corebot.Busy], which says when to try again and whether to tell the chat.
//
// A channel that fetches messages from its platform calls Cursor when Run begins, fetches what comes behind it, and
// gives each fetch to AcceptBatch: see [FrontDoor.AcceptBatch].
type Door interface {
	Accept(ctx context.Context, m Incoming) (Accepted, error)
	Cursor(ctx context.Context) (corebot.Cursor, error)
	AcceptBatch(ctx context.Context, batch []Incoming, c corebot.Cursor) (AcceptedBatch, error)
	// Admit says whether a sender may talk in a chat, as Accept would, with nil, [ErrNotPaired] or another error. It is
	// for what is no message, such as an invitation. No code is given.
	Admit(ctx context.Context, m Incoming) error
	// Alive notes that the platform has answered, when it had nothing to say: see [Periodic].
	Alive()
}

// Accepter takes in messages one by one.
type Accepter interface {
	Accept(ctx context.Context, m Incoming) (Accepted, error)
}

// Accepted says what became of an incoming message.
type Accepted struct {
	ID        string
	Duplicate bool          // accepted before; nothing changed
	Trace     corebot.Trace `json:"-"`
}

// AcceptedBatch says what became of the messages of a batch, in their order.
type AcceptedBatch struct {
	Messages []BatchResult
	Cursor   corebot.Cursor // to receive the next batch behind
}

// BatchResult is what became of one message of a batch. With Err it is not stored, and will not come again: the cursor
// is behind it. A Busy says that its chat or its sender has too many waiting messages.
type BatchResult struct {
	Accepted
	Err error
}

// Splitter is the ability of a channel whose messages have a largest size. Longer replies are sent in parts.
type Splitter interface {
	MaxMessageBytes() int
}

// Idempotent is the ability of a channel whose platform takes a message's id as an idempotency key: sending it twice
// shows it once.
type Idempotent interface {
	IdempotentSend()
}

// Reconciler is the ability of a channel that can look up whether a send was shown. Delivered is asked before a send is
// made again that was tried before, with what Send would get. If the send is shown, the receipt is that which Send
// would have given. An error leaves the question open: the message waits, and uses up no attempt. An error that wraps
// [ErrCannotTell] says that the platform has answered and cannot tell: then OnAmbiguous decides.
type Reconciler interface {
	Delivered(ctx context.Context, o Outbound) (r Receipt, shown bool, err error)
}

// Reacher is the ability of a channel whose platform cannot say what it shows, and answers a harmless question. Reach
// asks it before a send is made again that was tried before, and before any send of an account whose last send was of
// unknown end. An error says that the platform is out of reach: the message waits, and uses up no attempt. Otherwise a
// platform that takes requests and answers none for an hour would use up every attempt of the messages that wait, and
// the end of each would be unknown.
type Reacher interface {
	Reach(ctx context.Context) error
}

// Pulled is the ability of a channel whose callers can fetch their messages from the [Mailbox]. Pulled says whether the
// mailbox is their only way; it never changes its answer. The store then puts each message into the mailbox in the
// commit that causes it, and Send gets none. Only what already waited for a Send is still sent, and comes first.
//
// Posted is called after the commit of a message was synced. It must not block.
type Pulled interface {
	Pulled() bool
	Posted(k corebot.Key)
}

// Attended is the ability of a channel whose chats a person opens and closes, such as a terminal. A message that waits
// until its chat is open is in order there, and the log names none.
type Attended interface{ Attended() }

// Files is the ability of a channel that shows images, audio and files, or passes them on. The messages of any other
// channel have a line of text for each.
type Files interface {
	ShowsFiles()
}

// FileNotes is the ability of a channel whose reader has the disk of this machine before him: a line for each file says
// where the file lies.
type FileNotes interface {
	NoteOf(k corebot.Key, p corebot.Part) string
}

// FilesApart is the ability of a channel that shows each file as a message of its own. Send gets the text in its
// pieces, and then each file: an [Outbound] of one part, which [Outbound.File] gives, with the whole text in Before. A
// file that the platform refuses for good is named in a text in its place, with the reason.
type FilesApart interface {
	Files
	FilesApart()
}

// Buttons is the ability of a channel whose messages can have buttons. [Outbound.Buttons] has the actions of a notice,
// at most MaxButtons of them. A press of a button is the command of its action: the channel hands the command to the
// door as a message of the presser. The text says all that the buttons say.
type Buttons interface {
	MaxButtons() int
}

// Rooms is the ability of a channel in which a chat of two people can become one of several, under the same id.
type Rooms interface {
	IsGroup(ctx context.Context, k corebot.Key) (bool, error)
}

// Typer is the ability of a channel that can show that an answer is being made. Typing shows that in a conversation for
// a while, and again is when to call it next. An error ends it for this answer; nothing else depends on it.
type Typer interface {
	Typing(ctx context.Context, k corebot.Key) (again time.Duration, err error)
}

// Checker is the ability of a channel that can try its settings: it connects, says in a few words as whom, and changes
// nothing. It is asked in a process in which Run does not run.
type Checker interface {
	Check(ctx context.Context) (string, error)
}

// Noting is the ability of a channel whose account can do something, or cannot, that its kind does not say. Note says
// it in a few words, for lists of accounts.
type Noting interface {
	Note() string
}

// Periodic is the ability of a channel that hears from its platform at least once in a period: an event, an empty poll,
// a ping. Without a call of its [Door] in twice the period, the connection is deaf, and the supervisor runs the channel
// again.
type Periodic interface {
	Period() time.Duration
}

// Prober is the ability of a channel that waits for callers: Probe is such a caller, and an error says that nobody
// answered it. It returns when ctx ends, and soon in any case.
type Prober interface {
	Probe(ctx context.Context) error
}

// Final wraps the error of a channel that must not be run again, such as one whose input has ended with an error.
type Final struct{ Err error }

func (f *Final) Error() string { return f.Err.Error() }
func (f *Final) Unwrap() error { return f.Err }

func isFinal(err error) bool {
	var f *Final
	return errors.As(err, &f)
}

// Incoming is a message as a channel got it. The door gives it its key, kind and principal.
type Incoming struct {
	ID         string // the platform's id of the message: the idempotency key
	Channel    string
	Account    string
	Agent      string // whom the sender means; empty: the agent that answers in the chat
	Chat       string
	Thread     string
	SenderID   string         // immutable id of the sender, empty if the platform did not say
	SenderName string         // display only
	Parts      []corebot.Part `json:"-"` // see [corebot.Content]
	Files      []Attached     `json:",omitempty"`
	Metadata   corebot.Metadata
	Envelope   corebot.Envelope `json:",omitzero"`

	// EditOf names an earlier message of the same sender in the same conversation whose new content this one has.
	// DeleteOf names one that the sender took back; then there is no content. Either is a message with an id of its
	// own, and each edit of a message has another. See [FrontDoor] for what they do.
	EditOf   string `json:",omitempty"`
	DeleteOf string `json:",omitempty"`

	// Bot says that a program wrote the message, such as another bot: it is context at most, so that no two bots answer
	// each other for ever. Own says that this very account wrote it: it is dropped.
	Bot bool `json:",omitempty"`
	Own bool `json:",omitempty"`

	// Aside says that a person did something that is no prompt, such as to react to a message: it is context at most.
	Aside bool `json:",omitempty"`

	// Hourly bounds how many messages of the sender are answered; nil: there is no bound. By is whom it counts; empty:
	// SenderID, or else Chat.
	Hourly *Hourly `json:"-"`
	By     string  `json:"-"`

	// Trace is what has caused the message, if its sender says so and may; see [corebot.ParseTraceparent].
	Trace corebot.Trace `json:"-"`

	// Tell says that the sender did something that Corebot cannot follow, such as to write an encrypted message. The
	// chat is told in these words, once. Nothing else becomes of it.
	Tell string `json:"-"`

	// Interactive says that a person wrote the message, at a terminal or in a chat. Only such a message can approve a
	// call. It counts only on channels of a kind with [Kind.People].
	Interactive bool
}

// Text joins the texts of the message with newlines. By it the door tells a chat command from a prompt.
func (in Incoming) Text() string { return corebot.TextOf(in.Parts) }

// validate refuses what no message of a platform can be. The size of it all is the bus's business.
func (in *Incoming) validate() error {
	if in.EditOf != "" && in.DeleteOf != "" {
		return fmt.Errorf("%w: it edits one message and deletes another", corebot.ErrInvalid)
	}
	for _, id := range []string{in.EditOf, in.DeleteOf} {
		if err := cmp.Or(corebot.CheckID(id), corebot.CheckName(id)); err != nil {
			return err
		}
	}
	for _, p := range in.Parts {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	if err := in.validateDelivery(); err != nil {
		return err
	}
	if sent := in.Envelope.SentAt; !sent.IsZero() {
		if sent.Year() < 1970 || sent.Year() > 9999 {
			return fmt.Errorf("%w: it was sent in the year %d", corebot.ErrInvalid, sent.Year())
		}
		in.Envelope.SentAt = sent.Truncate(time.Millisecond).UTC()
	}
	return nil
}

// validateDelivery checks the time before which nobody answers the message.
func (in *Incoming) validateDelivery() error {
	at := in.Envelope.DeliverAt
	switch {
	case at.IsZero():
		return nil
	case in.EditOf != "" || in.DeleteOf != "":
		return fmt.Errorf("%w: an edit or a deletion is not delivered at a later time", corebot.ErrInvalid)
	case at.Year() < 1970:
		return fmt.Errorf("%w: deliverAt is in the year %d", corebot.ErrInvalid, at.Year())
	case time.Until(at) > corebot.MaxDeliverAhead:
		return corebot.WithHint(fmt.Errorf("%w: deliverAt is %s", corebot.ErrInvalid, at.UTC().Format(time.RFC3339)),
			fmt.Sprintf("choose a time at most %d days from now", corebot.MaxDeliverAhead/(24*time.Hour)))
	}
	in.Envelope.DeliverAt = at.Truncate(time.Millisecond).UTC()
	return nil
}

// MarshalJSON writes the parts as [corebot.Content]: the terminal's line of another version of Corebot stays readable.
func (in Incoming) MarshalJSON() ([]byte, error) {
	type plain Incoming
	return json.Marshal(struct {
		plain
		corebot.Content
	}{plain(in), corebot.ContentOf(in.Parts)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (in *Incoming) UnmarshalJSON(data []byte) error {
	type plain Incoming
	var sent struct {
		plain
		corebot.Content
	}
	fields := json.NewDecoder(bytes.NewReader(data))
	fields.DisallowUnknownFields()
	if err := fields.Decode(&sent); err != nil {
		return err
	}
	*in = Incoming(sent.plain)
	in.Parts = sent.All()
	return nil
}

// Outbound is one send: a message of Corebot, or a piece of one that is longer than the channel takes.
type Outbound struct {
	ID             string         `json:"id"` // of the message: the same in every attempt, and for all its pieces
	IdempotencyKey string         `json:"-"`  // of this send: it names the message and the bytes of the piece
	Key            corebot.Key    `json:"-"`
	Kind           corebot.Kind   `json:"-"` // [corebot.KindReply] or [corebot.KindNotice]
	Parts          []corebot.Part `json:"parts"`
	Before         string         `json:"-"`                   // of a later piece: the text that was sent before
	Shown          []string       `json:"-"`                   // the platform's ids of pieces that were sent before
	InReplyTo      string         `json:"inReplyTo,omitempty"` // the id of the message that it answers
	AlsoAnswers    []string       `json:"alsoAnswers,omitempty"`
	CreatedAt      time.Time      `json:"-"`
	// Notice says in data what the text of a notice says in words. Buttons are its actions, of a channel that has
	// [Buttons]. Of a message in pieces, the last piece has both.
	Notice  *corebot.Notice  `json:"-"`
	Buttons []corebot.Action `json:"-"`
}

// Text joins the texts with newlines.
func (o Outbound) Text() string { return corebot.TextOf(o.Parts) }

// IsDraft says whether the send is the ellipsis of a draft. CreatedAt is when the draft began: within seconds the
// ellipsis is sent, or never. So a channel looks for it around that time, however much was said since.
func (o Outbound) IsDraft() bool { return strings.HasPrefix(o.ID, draftID) }

// File is the file that the send shows, of a channel with [FilesApart].
func (o Outbound) File() (p corebot.Part, is bool) {
	if len(o.Parts) != 1 || o.Parts[0].Type == corebot.PartText {
		return p, false
	}
	return o.Parts[0], true
}

// Answers lists the ids of all messages that it answers; the first is InReplyTo.
func (o Outbound) Answers() []string {
	if o.InReplyTo == "" {
		return o.AlsoAnswers
	}
	return append([]string{o.InReplyTo}, o.AlsoAnswers...)
}

// OutboundOf makes the send of a whole message, as a channel shows it: see [Files] and [Buttons]. No channel means one
// without abilities.
func OutboundOf(m corebot.Message, c Channel) Outbound {
	o := Outbound{
		ID: m.ID, IdempotencyKey: m.ID, Key: m.Key, Kind: m.Kind, Parts: m.Parts, InReplyTo: m.InReplyTo,
		CreatedAt: m.CreatedAt, Notice: m.Notice,
	}
	if _, shows := c.(Files); !shows {
		note := func(p corebot.Part) string { return Named(p, "cannot be shown here") }
		if notes, has := c.(FileNotes); has {
			note = func(p corebot.Part) string { return notes.NoteOf(m.Key, p) }
		}
		o.Parts = readable(m.Parts, note)
	}
	if b, has := c.(Buttons); has && m.Notice != nil {
		o.Buttons = m.Notice.Actions[:min(len(m.Notice.Actions), b.MaxButtons())]
	}
	if others := m.Answers(); len(others) > 0 && m.InReplyTo != "" {
		o.AlsoAnswers = others[1:]
	} else {
		o.AlsoAnswers = others
	}
	return o
}

// readable is content as text alone.
func readable(parts []corebot.Part, note func(corebot.Part) string) []corebot.Part {
	attachments := corebot.Attachments(parts)
	if len(attachments) == 0 {
		return parts
	}
	lines := slices.DeleteFunc([]string{corebot.TextOf(parts)}, func(text string) bool { return text == "" })
	for _, p := range attachments {
		lines = append(lines, note(p))
	}
	return corebot.TextPart(strings.Join(lines, "\n"))
}

// Named is a file in a line of text, with why it is not shown.
func Named(p corebot.Part, why string) string {
	line := fmt.Sprintf("[%s %q (%s) %s]", p.Type, p.Name, p.MediaType, why)
	if p.Text != "" {
		line += " " + p.Text
	}
	return line
}

// piece is the send of the bytes of the text between two places.
func (o Outbound) piece(text string, from, to int) Outbound {
	whole := o.Text()
	o.Before = whole[:from]
	if from > 0 || to < len(whole) {
		o.IdempotencyKey = pieceKey(o.ID, from, to)
	}
	switch {
	case to < len(whole): // the last piece has what stands beside the text
		o.Parts, o.Notice, o.Buttons = corebot.TextPart(text), nil, nil
	case text != whole:
		o.Parts = append(corebot.TextPart(text), corebot.Attachments(o.Parts)...)
	}
	return o
}

// pieceKey names the bytes of a piece. A platform that has shown these bytes does not show them again in a later run.
// And it never takes other bytes for them. A whole message has its own id.
func pieceKey(id string, from, to int) string {
	return fmt.Sprintf("%s/1/%s-%s", id, strconv.Itoa(from), strconv.Itoa(to))
}

// Receipt is what a platform says of a send.
type Receipt struct {
	// IDs are the platform's own ids of what it shows now, in order: an edit, a deletion and a reply to it need them.
	// A channel whose platform has none leaves IDs empty.
	IDs []string
	// Reached is how many bytes of the text the platform has shown. Zero means all of them beside a nil error, and none
	// beside another. A channel that cuts texts itself can stop early: the outbox sends the rest.
	Reached int
}

// reached is the place in a piece up to which the platform has shown it.
func (r Receipt) reached(piece string, err error) int {
	inside := r.Reached > 0 && r.Reached < len(piece) && utf8.RuneStart(piece[r.Reached])
	switch {
	case inside:
		return r.Reached
	case err != nil:
		return 0
	}
	return len(piece)
}
