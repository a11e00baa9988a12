package channels

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/internal/watchdog"
)

// Account names one account of one kind of channel, such as the bot "work" of a network. A kind whose keys have no
// account has one account without a name.
type Account struct {
	Kind string `json:"kind"`
	Name string `json:"account"`
}

// String is KIND or KIND:NAME.
func (a Account) String() string {
	if a.Name == "" {
		return a.Kind
	}
	return a.Kind + ":" + a.Name
}

// AccountOf is the account of a conversation.
func AccountOf(k corebot.Key) Account { return Account{Kind: k.Channel, Name: k.Account} }

// Entry is a channel that serves an account.
type Entry struct {
	Account
	Channel Channel
}

// State is what an account does at the moment.
type State string

const (
	Starting State = "starting" // it has not been run yet
	Running  State = "running"  // it receives and sends
	Failed   State = "failed"   // it ended with an error, and is run again after a pause
	Ended    State = "ended"    // it ended for good
)

// Status is how an account is doing.
type Status struct {
	Account
	State     State     `json:"state"`
	Since     time.Time `json:"since"`
	LastEvent time.Time `json:"lastEvent,omitzero"` // a message was accepted, or one was sent
	LastError string    `json:"lastError,omitempty"`
	Note      string    `json:"note,omitempty"` // of a channel that is a [Noting]
}

// watched is an entry whose status is kept.
type watched struct {
	Entry
	again chan struct{} // has something when the channel is to be run anew
	gate  gate
	mu    sync.Mutex
	now   Status
	// when the platform was heard last; Status.LastEvent leaves out what had nothing to say
	heard   time.Time
	failing bool // the last run failed, and nothing was heard of the platform since then
	steps   watchdog.Steps[string]

	nextEdit time.Time   // of a draft, at the earliest: see [EditsTogether]
	strayed  atomic.Bool // the last send was of unknown end, and nobody can ask for it: see [Reacher]

	told   string // for which messages wait, as the log has named it
	toldAt time.Time
}

// Naming has a text that names settings, such as an error or a hint, name those of this account. A channel does not
// know there which of several accounts it serves.
func (a Account) Naming(text string) string {
	return strings.ReplaceAll(text, a.Kind+".ACCOUNT.", a.Kind+"."+a.Name+".")
}

func watch(e Entry) *watched {
	note := ""
	if c, notes := e.Channel.(Noting); notes {
		note = c.Note()
	}
	return &watched{
		Entry: e, again: make(chan struct{}, 1),
		now: Status{Account: e.Account, State: Starting, Since: time.Now(), Note: note},
	}
}

func (w *watched) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *watched) turns(s State, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.State, w.now.Since = s, time.Now()
	w.heard = w.now.Since
	if err != nil {
		w.now.LastError, w.failing = clip(w.Naming(err.Error()), reportedError), true
	}
}

// up says whether the account works, as far as is known. One that runs again after a failure works when it was heard,
// or when it has run for a while.
func (w *watched) up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.failing || w.now.State == Running && time.Since(w.now.Since) > healthyAfter
}

// noted remembers what became of an exchange with the platform.
func (w *watched) noted(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.now.LastError = clip(w.Naming(err.Error()), reportedError)
		return
	}
	w.now.LastEvent = time.Now()
	w.heard, w.failing = w.now.LastEvent, false
}

// tellAgain is when the log names the same reason for which messages of an account wait again.
const tellAgain = 10 * time.Minute

// tells says whether the log names the reason for which a message waits. Many can wait for the same one, and for long.
func (w *watched) tells(reason string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reason == w.told && now.Sub(w.toldAt) < tellAgain && !now.Before(w.toldAt) {
		return false
	}
	w.told, w.toldAt = reason, now
	return true
}

func (w *watched) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard, w.failing = time.Now(), false
}

// silence is for how long nothing was heard of the platform.
func (w *watched) silence() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.heard)
}

// entrance is the [Door] of an account: what is accepted is an event of the account.
type entrance struct {
	*FrontDoor
	of *watched
}

// At is the [Door] of an account, for a channel that no supervisor runs.
func (d *FrontDoor) At(a Account) Door { return entrance{d, watch(Entry{Account: a})} }

// Accept implements [Door]. A refusal is the sender's business, and no error of the account.
func (e entrance) Accept(ctx context.Context, in Incoming) (Accepted, error) {
	e.of.fill(&in)
	a, err := e.FrontDoor.Accept(ctx, in)
	if err == nil {
		e.of.noted(nil)
	}
	return a, err
}

// Cursor implements [Door].
func (e entrance) Cursor(ctx context.Context) (corebot.Cursor, error) {
	return e.bus.Cursor(ctx, e.of.Kind, e.of.Name)
}

// AcceptBatch implements [Door]. A batch without messages is an event too: the platform has answered.
func (e entrance) AcceptBatch(ctx context.Context, batch []Incoming, c corebot.Cursor) (AcceptedBatch, error) {
	for i := range batch {
		e.of.fill(&batch[i])
	}
	a, err := e.FrontDoor.AcceptBatch(ctx, e.of.Account, batch, c)
	e.of.noted(err)
	return a, err
}

// Admit implements [Door].
func (e entrance) Admit(ctx context.Context, in Incoming) error {
	e.of.fill(&in)
	return e.FrontDoor.Admit(ctx, in)
}

// Alive implements [Door].
func (e entrance) Alive() { e.of.alive() }

// fill names the account of a message that does not name it.
func (w *watched) fill(in *Incoming) {
	if in.Channel == "" && in.Account == "" {
		in.Channel, in.Account = w.Kind, w.Name
	}
	w.notingFiles(in)
}

// Status tells how every account is doing, without backlogs, by kind and account.
func (s *Supervisor) Status() []Status {
	all := make([]Status, len(s.entries))
	for i, e := range s.entries {
		all[i] = e.status()
	}
	sorted.By(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}

// DoorOf is the door of an account whose messages come in by another way than its Run.
func (s *Supervisor) DoorOf(a Account) Accepter {
	for _, e := range s.entries {
		if e.Account == a {
			return entrance{s.door, e}
		}
	}
	return s.door
}

// IsGroup says whether a chat has become a group. Where that cannot happen it says no.
func (s *Supervisor) IsGroup(ctx context.Context, k corebot.Key) (bool, error) {
	for _, e := range s.entries {
		if rooms, is := e.Channel.(Rooms); is && e.Account == AccountOf(k) {
			return rooms.IsGroup(ctx, k)
		}
	}
	return false, nil
}

var upDesc = prometheus.NewDesc("corebot_channel_up",
	"1 while an account of a channel works, 0 while its connection fails or has ended with an error.",
	[]string{"channel", "account"}, nil)

// Describe implements prometheus.Collector.
func (s *Supervisor) Describe(out chan<- *prometheus.Desc) { out <- upDesc }

// Collect implements prometheus.Collector.
func (s *Supervisor) Collect(out chan<- prometheus.Metric) {
	for _, e := range s.entries {
		up := 0.0
		if e.up() {
			up = 1
		}
		out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up, e.Kind, e.Name)
	}
}

// Down lists the accounts that do not work.
func (s *Supervisor) Down() (all []Account) {
	for _, e := range s.entries {
		if !e.up() {
			all = append(all, e.Account)
		}
	}
	return all
}
