package storage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/storage/storagetest"
)

func TestTheStoreKeepsTheContractsOfItsRepositories(t *testing.T) {
	storagetest.Run(t, openForContracts)
}

// openForContracts opens the database of a directory as a new process would.
func openForContracts(dir string) (storagetest.Store, error) {
	if err := storage.Seed(dir); err != nil {
		return storagetest.Store{}, err
	}
	db, err := storage.Open(context.Background(), dir, storage.Options{Accounting: storagetest.Accounting()})
	if err != nil {
		return storagetest.Store{}, err
	}
	index, err := storage.NewSearchIndex(db, storage.SearchIndexOptions{})
	if err != nil {
		return storagetest.Store{}, errors.Join(err, db.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.Run(ctx) }()
	ledger, history := storage.NewLedger(db), storage.NewHistory(db)
	return storagetest.Store{
		Queue: storage.NewQueue(db), Lives: storage.NewLives(db), Letters: storage.NewDeadLetters(db),
		Ledger: ledger, Journal: ledger, History: history, Facts: storage.NewFacts(db),
		Sayings: sayings{history, storage.NewVectors(db, storage.VectorOptions{})},
		Mailbox: storage.NewMailbox(db), Books: storage.NewBooks(db), Audit: storage.NewAudit(db),
		Approvals: func(by corebot.AuditEvent) storagetest.Approvals { return storage.NewApprovals(db).As(by) },
		Waits:     func(by corebot.AuditEvent) storagetest.Waits { return storage.NewWaits(db).As(by) },
		Jobs:      func(by corebot.AuditEvent) storagetest.Jobs { return storage.NewJobs(db).As(by) },
		Grants:    func(by corebot.AuditEvent) storagetest.Grants { return storage.NewGrants(db).As(by) },
		Chats:     func(by corebot.AuditEvent) storagetest.Chats { return storage.NewChats(db).As(by) },
		Pins:      func(agent string) storagetest.Pins { return storage.NewMCPTools(db, agent) },
		MailFor:   func(c storagetest.MailClients) { db.MailFor(c) },
		Index:     index.CatchUp,
		Problems:  checked(db.Problems),
		Close: func() error {
			stop()
			return errors.Join(<-ended, db.Close())
		},
	}, nil
}

// sayings are searched by words here: vectors have tests of their own.
type sayings struct {
	operate.History
	vectors *storage.Vectors
}

func (s sayings) Search(ctx context.Context, k corebot.Key, q terms.Query, limit int) ([]corebot.HistoryEntry,
	corebot.Match, error,
) {
	return s.vectors.Search(ctx, k, q, limit)
}

func (s sayings) Sources(ctx context.Context, k corebot.Key, found []corebot.HistoryEntry) ([]corebot.Sources, error) {
	return s.vectors.Sources(ctx, k, found)
}
