package channels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Publisher is what the door needs of the bus.
type Publisher interface {
	Publish(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
	Receive(ctx context.Context, b corebot.Batch) ([]corebot.Receipt, corebot.Cursor, error)
	Cursor(ctx context.Context, channel, account string) (corebot.Cursor, error)
}

// Controller accepts messages that act at once, and ends the turn that a prompt has stopped.
type Controller interface {
	Control(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
	Interrupt(life int64)
}

// Trail is where the door notes whom it did not let in.
type Trail interface {
	Note(ctx context.Context, e corebot.AuditEvent) error
}

// DoorOptions of a [FrontDoor].
type DoorOptions struct {
	Routing corebot.Routing       // which agent answers where
	Agents  []string              // that there are; empty: [corebot.DefaultAgent]
	MaxAge  time.Duration         // an older message is context, and not answered; zero: none is too old
	Trail   Trail                 // nil: refusals are counted only
	Files   FileKeeper            // nil: the contents of files are not kept
	Log     zerolog.Logger        // the zero logger is silent
	Metrics prometheus.Registerer // nil: none

	FetchPause time.Duration // between two tries of a file; zero: 2 s
}

// FrontDoor is the one way in: the [Door] of each account leads to it.
//
// An edit changes only a message of its own sender in its own conversation. It takes the place of a message that waits.
// It steers a turn that runs or will be tried again. Of every other message it is context: of one that is answered,
// given up, another's, unknown, forgotten by retention, or not there yet. An edit is never a chat command, and it
// begins no turn of its own, unless the turn that it meant to steer ends first.
//
// A deletion cancels a message that waits, if its sender or an admin deletes it. Of any other message it changes and
// stores nothing.
type FrontDoor struct {
	bus        Publisher
	control    Controller
	admissions Admissions
	opts       DoorOptions
	episodes   episodes
	late       episodes // chats that were told of messages that came too late
	refusals   refusals
	refused    *prometheus.CounterVec
}

// otherChannel stands in the metrics for all accounts that the settings do not have.
const otherChannel = "other"

// NewFrontDoor makes the door of a process.
func NewFrontDoor(b Publisher, c Controller, may Admissions, o DoorOptions) (*FrontDoor, error) {
	if b == nil || c == nil || may.Chats == nil {
		return nil, fmt.Errorf("%w: a front door wants a bus, a controller and a register of chats", corebot.ErrInvalid)
	}
	if len(o.Agents) == 0 {
		o.Agents = []string{corebot.DefaultAgent}
	}
	o.FetchPause = cmp.Or(o.FetchPause, fetchPause)
	d := &FrontDoor{bus: b, control: c, admissions: may, opts: o}
	d.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "corebot_door_refused_total",
		Help: "Messages of senders who may not talk, by channel and the rule that refused them.",
	}, []string{"channel", "rule"})
	d.refused.WithLabelValues(otherChannel, noChannel)
	for account, rules := range may.Accounts {
		for _, rule := range rules.refusals() {
			d.refused.WithLabelValues(account.Kind, rule)
		}
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(d.refused); err != nil {
			return nil, fmt.Errorf("register the metrics of the front door: %w", err)
		}
	}
	return d, nil
}

// Accept takes in one message.
func (d *FrontDoor) Accept(ctx context.Context, in Incoming) (Accepted, error) {
	m, has, err := d.message(ctx, in, time.Now().Add(batchTime))
	if errors.Is(err, errHad) {
		return Accepted{ID: in.ID, Duplicate: true}, nil
	}
	if err != nil {
		return Accepted{}, err
	}
	if in.Tell != "" {
		d.tellOnce(ctx, m, in.Tell)
		return Accepted{ID: in.ID}, nil
	}
	r, err := d.publish(ctx, m)
	if err == nil && !r.Duplicate {
		d.stored(ctx, m, has)
	}
	return Accepted{ID: in.ID, Duplicate: r.Duplicate, Trace: r.Trace}, d.episodes.busy(m.Key, err)
}

// since is what follows once a message is stored: late says that it would have been answered, had it come in time. The
// message counts for a sender unless hourly is nil.
type since struct {
	late   bool
	hourly *Hourly
	by     string
}

// stored does what follows the commit of a message that was not there before.
func (d *FrontDoor) stored(ctx context.Context, m corebot.Message, s since) {
	if s.hourly != nil {
		s.hourly.count(s.by, time.Now())
	}
	if s.late {
		d.tellLate(ctx, m)
	}
}

// message makes what is stored of an incoming message, if its sender may talk. Files are fetched until a moment.
func (d *FrontDoor) message(ctx context.Context, in Incoming, until time.Time) (
	m corebot.Message, has since, err error,
) {
	if in.Own {
		return m, has, ErrOwn
	}
	key, err := d.key(in)
	if err != nil {
		return m, has, err
	}
	if err := in.validate(); err != nil {
		return m, has, err
	}
	spoken, late, counts := d.bounded(&in)
	if has.late = late; counts {
		has.hourly, has.by = in.Hourly, in.counted()
	}
	m = corebot.Message{
		ID: in.ID, Direction: corebot.Inbound, Kind: spoken.Kind,
		Key:        key,
		Sender:     corebot.Principal{Channel: in.Channel, Account: in.Account, ID: in.SenderID},
		SenderName: in.SenderName, Parts: in.Parts, Metadata: in.Metadata, Envelope: in.Envelope,
		Entry:  corebot.Entry{Person: in.Interactive && d.rules(in).People},
		EditOf: in.EditOf, DeleteOf: in.DeleteOf, Trace: in.Trace,
	}
	if m.Kind == corebot.KindControl {
		if !in.Envelope.DeliverAt.IsZero() {
			return m, has, corebot.WithHint(fmt.Errorf("%w: a command that acts at once has no deliverAt",
				corebot.ErrInvalid), "send it when it is to act")
		}
		m.Direction = corebot.Control
	}
	if err := d.admit(ctx, m); err != nil {
		return m, has, err
	}
	if err := corebot.CheckID(m.ID); err != nil || in.Tell != "" {
		return m, has, err
	}
	return m, has, d.keep(ctx, in, &m, until)
}

func (d *FrontDoor) rules(in Incoming) AccountRules {
	return d.admissions.Accounts[Account{in.Channel, in.Account}]
}

// publish stores one message. A control message acts in the same commit.
func (d *FrontDoor) publish(ctx context.Context, m corebot.Message) (corebot.Receipt, error) {
	accept := d.bus.Publish
	if m.Direction == corebot.Control {
		accept = d.control.Control
	}
	r, err := accept(ctx, m)
	if err == nil {
		d.interrupt(r)
	}
	return r, err
}

// interrupt ends the turn that a stored prompt has stopped. The stop is stored already: a crash here only means that
// the turn's next claim ends it.
func (d *FrontDoor) interrupt(r corebot.Receipt) {
	if r.Stops != 0 {
		d.control.Interrupt(r.Stops)
	}
}

// key is the lane of a message. A message that names an agent that there is not is refused: nobody would ever answer
// it.
func (d *FrontDoor) key(in Incoming) (corebot.Key, error) {
	k := d.opts.Routing.Key(in.Channel, in.Account, in.Chat)
	k.Agent, k.Thread = cmp.Or(in.Agent, k.Agent), in.Thread
	if !slices.Contains(d.opts.Agents, k.Agent) {
		return k, corebot.WithHint(fmt.Errorf("%w: there is no agent %q", corebot.ErrInvalid, k.Agent),
			"`corebot agents list` shows which there are")
	}
	return k, nil
}

// admit says who may talk at all, before anything of the message is stored. Every kind of message is held to it: who
// may not talk can neither stop a turn nor ask for help.
func (d *FrontDoor) admit(ctx context.Context, m corebot.Message) error {
	decision, err := d.admissions.Judge(ctx, m.Sender, m.Key, m.Envelope.Group)
	if err != nil || decision.Allow {
		return err
	}
	account := AccountOf(m.Key)
	if decision.Rule == noChannel {
		account = Account{Kind: otherChannel}
	}
	d.refused.WithLabelValues(account.Kind, decision.Rule).Inc()
	d.note(ctx, m, decision)
	if decision.Rule == policy.RuleNotPaired {
		d.pair(ctx, m)
	}
	refusal := ErrNotAdmitted
	if decision.Rule == policy.RuleNotPaired {
		refusal = ErrNotPaired
	}
	return corebot.WithHint(fmt.Errorf("%w: %s", refusal, decision.Reason), admitting(decision.Rule))
}

// note leaves a row in the audit, unless there are many of late: a flood of strangers must not fill it, nor the disk.
// Without a row the refusal stands all the same.
func (d *FrontDoor) note(ctx context.Context, m corebot.Message, decision policy.Decision) {
	if d.opts.Trail == nil || m.Validate(0) != nil || !d.refusals.first(m.Sender, time.Now()) {
		return
	}
	e := corebot.AuditEvent{
		At: time.Now(), Event: "door.refused", Key: m.Key, Principal: m.Sender, Entry: corebot.EntryDoor,
		Outcome: corebot.OutcomeDenied, Rule: decision.Rule, Args: "{}",
	}
	if err := d.opts.Trail.Note(ctx, e); err != nil {
		d.opts.Log.Warn().Err(err).Str("chat",
			m.Key.String()).Msg("a refusal at the front door was not noted in the audit")
	}
}

// ErrNotAdmitted says that a sender may not talk in a chat. Nothing of the message was stored. A channel that can
// answer without the chat says so there; one that cannot is silent, so that strangers get no word out of it.
var ErrNotAdmitted = fmt.Errorf("%w: this sender may not talk here", corebot.ErrInvalid)

// ErrNotPaired is [ErrNotAdmitted] for a sender whom an admin can still let in: see [policy.AccessPairing].
var ErrNotPaired = fmt.Errorf("%w", ErrNotAdmitted)

// admitting says what an operator can do about a refusal.
func admitting(rule string) string {
	switch rule {
	case "chat-denied":
		return "`corebot chats set KEY --access default` opens the chat again"
	case "groups-off":
		return "set channels.KIND.ACCOUNT.groups to mention or all"
	case policy.RuleNotPaired:
		return "`corebot pair list` shows who asks; `corebot pair approve CODE` lets in who got the code"
	case "not-registered":
		return "register it with `corebot chats register KEY`, or have an admin register it in another chat"
	case "not-listed":
		return "add the sender or the chat to the allowlist of the channel, or use `corebot chats set KEY --access " +
			"allow`"
	}
	return ""
}

const (
	refusalTime = time.Hour
	refusalRows = 100 // in that time, all senders together
)

// refusals remembers whom the audit names already as refused: each sender once an hour, and a hundred of them at most.
// A restart forgets.
type refusals struct {
	mu    sync.Mutex
	since time.Time
	named map[corebot.Principal]struct{}
}

// first says whether a refusal is to be noted, and takes it for noted.
func (r *refusals) first(p corebot.Principal, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.since); r.named == nil || age >= refusalTime || age < 0 {
		r.named, r.since = map[corebot.Principal]struct{}{}, now
	}
	if _, known := r.named[p]; known || len(r.named) >= refusalRows {
		return false
	}
	r.named[p] = struct{}{}
	return true
}
