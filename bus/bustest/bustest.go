// Package bustest is the contract of the bus as a suite of tests. Every store that the bus runs on must pass it: each sentence
// of the package doc of bus has at least one test here, and so has each guarantee that only bus and store together can give.
//
// The tests run in virtual time (testing/synctest) on a real store in a temporary directory. They talk to it through [bus.Bus]
// wherever the bus has a word for it. When a test ends, the store must find no fault with itself. Beside the sentences, [RunModel]
// compares random histories with a model of the lanes, and what concurrent callers saw of a lane is checked for an order that a
// lane could have had.
//
// Limits: a process that is killed is imitated by closing the store with claims still held. What a kill in the middle of a commit
// leaves behind needs real processes and is not tested here.
package bustest

import (
	"context"
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

	// Damage overwrites what is stored of a waiting message, its body or its journal, with as many bytes of something else.
	Damage func(life int64, what Damaged) error
	// Census counts what is stored.
	Census func() (Census, error)
	// Problems is the store's own check of itself.
	Problems func(ctx context.Context) ([]string, error)
	// Close ends the writer and closes the files as they are: nothing is settled or released.
	Close func() error
}

// Damaged is what a test wants damaged.
type Damaged string

const (
	Body    Damaged = "body"    // no message can be read from it
	Letter  Damaged = "letter"  // a message can be read: another than was published
	Journal Damaged = "journal" // no step can be read from it
)

// Ledger is what the suite needs of executions.
type Ledger interface {
	Record(ctx context.Context, d corebot.Delivery, s corebot.Step, events ...corebot.AuditEvent) error
	Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error
	Stop(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent, notice func(found bool) corebot.Message) (corebot.Stopped, error)
	Steer(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent, notice func(merges bool) *corebot.Message) (corebot.Steered, error)
	Merge(ctx context.Context, d corebot.Delivery, position int) ([]corebot.Step, error)
}

// Modes sets what becomes of prompts that find their chat busy.
type Modes interface {
	SetQueueMode(ctx context.Context, k corebot.Key, mode corebot.QueueMode) error
}

// DeadLetters is what the suite needs of the messages that were given up.
type DeadLetters interface {
	List(ctx context.Context, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error)
	Replay(ctx context.Context, id int64, fresh bool) error
}

// Administer is what an operator does to a dead letter beside replaying it.
type Administer interface {
	Edit(ctx context.Context, id int64, newID, text string) error
	Drop(ctx context.Context, id int64) error
}

// Lives is what the suite needs of the life rows.
type Lives interface {
	Get(ctx context.Context, life int64) (corebot.Life, error)
}

// Census is how many of each a store holds. A write that is refused must not change it.
type Census struct{ Lanes, Lives, Waiting, Steps, History, Audit int }

// Open opens the store of a directory as a new process would, made if it is missing, with [Debounce] and [ControlRate]. It is called again on the same directory
// after Close.
type Open func(dir string) (Store, error)

// spec is one sentence of the contract.
type spec struct {
	sentence string
	hold     func(*suite)
}

// Run holds a store to the contract.
func Run(t *testing.T, open Open) {
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
		{"attempts", attemptSpecs()},
		{"dead letters", deadLetterSpecs()},
		{"stop", stopSpecs()},
		{"parking", parkingSpecs()},
		{"steer", steerSpecs()},
		{"queue modes", modeSpecs()},
		{"histories", historySpecs()},
	} {
		t.Run(chapter.title, func(t *testing.T) {
			for _, s := range chapter.specs {
				t.Run(s.sentence, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { s.hold(newSuite(t, open)) })
				})
			}
		})
	}
}
