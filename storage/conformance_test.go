package storage_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus/bustest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage"
)

func TestTheStoreKeepsTheContractOfTheBus(t *testing.T) { bustest.Run(t, openForSuite) }

// openForSuite opens the database of a directory as a new process would.
func openForSuite(dir string) (bustest.Store, error) {
	if err := storage.Seed(dir); err != nil {
		return bustest.Store{}, err
	}
	db, err := storage.Open(context.Background(), dir, storage.Options{
		Queueing: corebot.Queueing{Debounce: bustest.Debounce}, Limits: corebot.Limits{Control: bustest.ControlRate()},
	})
	if err != nil {
		return bustest.Store{}, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.Run(ctx) }()
	letters := storage.NewDeadLetters(db)
	return bustest.Store{
		Queue: storage.NewQueue(db), Ledger: storage.NewLedger(db), Lives: storage.NewLives(db),
		Modes: storage.NewChats(db), DeadLetters: letters, Administer: letters,
		Damage:   func(life int64, what bustest.Damaged) error { return damage(dir, life, what) },
		Census:   func() (bustest.Census, error) { return census(dir) },
		Problems: checked(db.Problems),
		Close: func() error {
			stop()
			return errors.Join(<-ended, db.Close())
		},
	}, nil
}

var checks atomic.Int64

// checked is the check of a store that has held a guarantee. In the short form each sixth store is checked.
func checked(problems func(context.Context) ([]string, error)) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		if checks.Add(1)%long.Or[int64](6, 1) != 0 {
			return nil, nil
		}
		return problems(ctx)
	}
}

func damage(dir string, life int64, what bustest.Damaged) error {
	return behindItsBack(dir, func(db *sql.DB) error {
		_, err := db.Exec(map[bustest.Damaged]string{
			bustest.Body: `UPDATE message_queue SET body = zeroblob(length(body)) WHERE life_id = ?`,
			bustest.Letter: `UPDATE message_queue SET body = CAST(replace(CAST(body AS TEXT), 'text of',
				'texT of') AS BLOB) WHERE life_id = ?`,
			bustest.Journal: `UPDATE execution_steps SET request = replace(request, '"', '?') WHERE life_id = ?`,
		}[what], life)
		return err
	})
}

func census(dir string) (c bustest.Census, err error) {
	err = behindItsBack(dir, func(db *sql.DB) error {
		return db.QueryRow(`SELECT (SELECT COUNT(*) FROM lanes), (SELECT COUNT(*) FROM message_life),
			(SELECT COUNT(*) FROM message_queue),
			(SELECT COUNT(*) FROM execution_steps), (SELECT COUNT(*) FROM history),
			(SELECT COUNT(*) FROM audit_events)`).
			Scan(&c.Lanes, &c.Lives, &c.Waiting, &c.Steps, &c.History, &c.Audit)
	})
	return c, err
}

// behindItsBack uses the database on a connection of its own, as no part of Corebot does.
func behindItsBack(dir string, use func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", filepath.Join(dir, storage.FileName)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	return errors.Join(use(db), db.Close())
}

// fairQueue shares its inbound claims fairly.
type fairQueue struct{ *storage.Queue }

func (q fairQueue) Claim(ctx context.Context, pool corebot.Pool, max int,
	opts corebot.ClaimOptions,
) ([]corebot.Delivery, error) {
	return q.Queue.Claim(ctx, pool, max, fairly(pool, opts))
}

func (q fairQueue) SettleAndClaim(ctx context.Context, d corebot.Delivery, o corebot.Outcome,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	next.Options = fairly(next.Pool, next.Options)
	return q.Queue.SettleAndClaim(ctx, d, o, next)
}

// fairLedger shares the claims that go with the ends of turns fairly.
type fairLedger struct{ bustest.Ledger }

func (l fairLedger) CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	next.Options = fairly(next.Pool, next.Options)
	return l.Ledger.CommitAndClaim(ctx, d, r, next)
}

func fairly(pool corebot.Pool, opts corebot.ClaimOptions) corebot.ClaimOptions {
	if pool == corebot.InboundPool && opts.Turns == 0 {
		opts.Turns = 200
	}
	return opts
}

// The short form has the chapters about who claims what, and about what a claim leaves.
func TestAStoreThatIsFairKeepsTheContractOfTheBus(t *testing.T) {
	claims := []string{"order", "fence", "leases", "wake-up", "next claims", "histories"}
	bustest.Run(t, func(dir string) (bustest.Store, error) {
		s, err := openForSuite(dir)
		if err == nil {
			s.Queue, s.Ledger = fairQueue{s.Queue.(*storage.Queue)}, fairLedger{s.Ledger}
		}
		return s, err
	}, long.Or(claims, nil)...)
}
