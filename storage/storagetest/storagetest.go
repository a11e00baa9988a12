// Package storagetest states what the rest of Corebot relies on from a store, as a suite of tests. Package bustest does
// the same for the bus. Each file is one contract. A doc comment lists its guarantees, and an interface asks for what
// its consumers call. Each guarantee is one subtest, under the words of the list.
//
// The suite reaches a store only through these interfaces, so that another store can be held to it unchanged. It sorts
// by nothing but what a contract promises to be in order. A crash is a store that is closed with claims still held, and
// opened again. A lost lease is one whose time is over, and whose lane a second worker has claimed.
//
// The tests run in virtual time (testing/synctest) on a real store. When a test ends, the store must find no fault with
// itself.
package storagetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

// Store is a store under test, open and with its writer running.
type Store struct {
	Queue   bus.Store
	Lives   Lives
	Letters Letters
	Ledger  Ledger
	Journal Journal
	History History
	Sayings Sayings
	Facts   Facts
	Mailbox Mailbox
	Books   Books
	Audit   Audit

	// These record who makes a change: the event says who.
	Approvals func(by corebot.AuditEvent) Approvals
	Waits     func(by corebot.AuditEvent) Waits
	Jobs      func(by corebot.AuditEvent) Jobs
	Grants    func(by corebot.AuditEvent) Grants
	Chats     func(by corebot.AuditEvent) Chats

	// MailFor sets the clients that fetch their messages from the mailbox.
	MailFor func(clients MailClients)

	// Pins are the tools of one agent.
	Pins func(agent string) Pins

	// Index brings the index of what was said up to date. A store without one does nothing.
	Index func(ctx context.Context) error
	// Problems is the store's own check of itself.
	Problems func(ctx context.Context) ([]string, error)
	// Close ends the writer and closes the store as it is: nothing is settled or released.
	Close func() error
}

// MailClients are the clients of a mailbox, as a store asks and tells them. Pulled says whether the clients of a
// conversation fetch what is sent to them. Posted is called after the commit that put a message into their mailbox.
type MailClients interface {
	Pulled(k corebot.Key) bool
	Posted(k corebot.Key)
}

// Lives is what the suite needs to see of messages.
type Lives interface {
	Get(ctx context.Context, life int64) (corebot.Life, error)
}

// Letters is what the suite needs of dead letters.
type Letters interface {
	Replay(ctx context.Context, life int64, fresh bool) error
	Edit(ctx context.Context, id int64, newID, text string) error
}

// Open opens the store of a directory as a new process would, made if it is missing, with [Accounting]. It is called
// again on the same directory after Close.
type Open func(dir string) (Store, error)

// Accounting is how a store under test books: a million tokens of the model "m" cost 1 as input and 2 as output, and a
// day begins at 22:00 UTC.
func Accounting() corebot.Accounting {
	prices, err := corebot.ParsePrices("m=1/2")
	if err != nil {
		panic(err)
	}
	return corebot.Accounting{Prices: prices, Zone: time.FixedZone("two hours east", 2*60*60)}
}

// spec is one guarantee of a contract.
type spec struct {
	guarantee string
	hold      func(*suite)
}

// contract is the guarantees that one interface gives.
type contract struct {
	of    string // the name of the interface
	specs []spec
}

func contracts() []contract {
	return []contract{
		{"Ledger", ledgerSpecs()},
		{"Journal", journalSpecs()},
		{"History", historySpecs()},
		{"Sayings", sayingSpecs()},
		{"Facts", factSpecs()},
		{"Approvals", approvalSpecs()},
		{"Waits", waitSpecs()},
		{"Jobs", jobSpecs()},
		{"Grants", grantSpecs()},
		{"Chats", chatSpecs()},
		{"Mailbox", mailboxSpecs()},
		{"Books", bookSpecs()},
		{"Audit", auditSpecs()},
		{"Pins", pinSpecs()},
		{"Cursors", cursorSpecs()},
	}
}

// Run holds a store to all contracts.
func Run(t *testing.T, open Open) {
	for _, c := range contracts() {
		t.Run(c.of, func(t *testing.T) {
			for _, s := range c.specs {
				t.Run(s.guarantee, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { s.hold(newSuite(t, open)) })
				})
			}
		})
	}
}
