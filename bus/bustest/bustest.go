// Package bustest is the contract of the bus as a suite of tests. Every store that the bus runs on must pass it. Each
// sentence of the package doc of bus has at least one test here. So has each guarantee that only bus and store together
// can give.
//
// The tests run in virtual time (testing/synctest) on a real store in a temporary directory. They use [bus.Bus]
// wherever the bus has a method for the purpose. When a test ends, the store must find no problem with itself. In
// addition, [RunModel] compares random histories with a model of the lanes. The suite also records what concurrent
// callers saw of a lane, and checks that a lane could have answered in some such order.
//
// Limits: the suite imitates a killed process by closing the store with claims still held. It does not test what a kill
// in the middle of a commit leaves behind, because that needs real processes.
package bustest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

// Store is a store under test, open and with its writer running.
type Store struct {
	Queue       bus.Store
	Ledger      Ledger
	DeadLetters DeadLetters
	Administer  Administer
	Lives       Lives
	Modes       Modes

	// Damage overwrites a part of what is stored for a waiting message with as many other bytes.
	Damage func(life int64, what Damaged) error
	// Census counts the stored rows.
	Census func() (Census, error)
	// Problems is the store's own check of itself.
	Problems func(ctx context.Context) ([]string, error)
	// Close ends the writer and closes the files as they are. It settles and releases nothing.
	Close func() error
}

// Damaged is the part that a test damages, and how.
type Damaged string

const (
	Body    Damaged = "body"    // no message can be read from the body
	Letter  Damaged = "letter"  // the body can be read, but as another message
	Journal Damaged = "journal" // no step can be read from the journal
)

// Ledger is the part of the ledger that the suite needs.
type Ledger interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
	Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error
	CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result, next corebot.Claim) ([]corebot.Delivery,
		error)
	Stop(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
		notice func(found bool) corebot.Message, asked ...corebot.Head) (corebot.Stopped, error)
	Steer(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
		notice func(merges bool) *corebot.Message) (corebot.Steered, error)
	Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error)
	Cancel(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
	Head(ctx context.Context, k corebot.Key) (life int64, sender corebot.Principal, err error)
}

// Modes sets the queue modes of chats.
type Modes interface {
	SetQueueMode(ctx context.Context, k corebot.Key, mode corebot.QueueMode) error
}

// DeadLetters is the part of the dead letters that the suite needs.
type DeadLetters interface {
	List(ctx context.Context, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error)
	Replay(ctx context.Context, id int64, fresh bool) error
}

// Administer is what an operator can do to a dead letter beside a replay.
type Administer interface {
	Edit(ctx context.Context, id int64, newID, text string) error
	Drop(ctx context.Context, id int64) error
}

// Lives is the part of the life rows that the suite needs.
type Lives interface {
	Get(ctx context.Context, life int64) (corebot.Life, error)
}

// Census is how many rows of each kind a store holds. A refused write must not change it.
type Census struct{ Lanes, Lives, Waiting, Steps, History, Audit int }

// Open opens the store of a directory as a new process would, with [Debounce] and [ControlRate]. It creates a missing
// store. The suite calls it again on the same directory after Close.
type Open func(dir string) (Store, error)

// spec is one sentence of the contract.
type spec struct {
	sentence string
	hold     func(*suite)
}

// Run checks a store against the contract, or only against chapters of it.
func Run(t *testing.T, open Open, only ...string) {
	found := 0
	for _, chapter := range []struct {
		title string
		specs []spec
	}{
		{"accepted", acceptedSpecs()},
		{"limits", limitSpecs()},
		{"rate", rateSpecs()},
		{"order", orderSpecs()},
		{"fence", fenceSpecs()},
		{"leases", leaseSpecs()},
		{"wake-up", wakeSpecs()},
		{"next claims", nextSpecs()},
		{"attempts", attemptSpecs()},
		{"dead letters", deadLetterSpecs()},
		{"stop", stopSpecs()},
		{"deferred messages", deferredSpecs()},
		{"delivery at a time", laterSpecs()},
		{"steer", steerSpecs()},
		{"edits and deletions", editSpecs()},
		{"queue modes", modeSpecs()},
		{"histories", historySpecs()},
	} {
		if len(only) > 0 && !slices.Contains(only, chapter.title) {
			continue
		}
		found++
		t.Run(chapter.title, func(t *testing.T) {
			for _, s := range chapter.specs {
				t.Run(s.sentence, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { s.hold(newSuite(t, open)) })
				})
			}
		})
	}
	if len(only) > 0 && found != len(only) {
		t.Errorf("%d of the chapters %q are there", found, only)
	}
}
