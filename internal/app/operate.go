package app

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

var (
	_ operate.DeadLetters = (*storage.DeadLetters)(nil)
	_ operate.Lives       = (*storage.Lives)(nil)
)

// service is the admin service on a database, in the hands of the operator.
func service(db *storage.DB) *operate.Service {
	return operate.New(operate.Stores{DeadLetters: storage.NewDeadLetters(db), Lives: storage.NewLives(db)})
}

// Reader carries out operations that only read, for commands: at the Corebot that runs on a home or, if there is none
// or it cannot answer, in this process on the query-only database. An older Corebot does not know every operation, and
// one that hangs answers none.
type Reader struct {
	home     string
	patience time.Duration
	alone    bool // the Corebot of the home could not answer: it is not asked again
}

// Patience is how long a command waits for what a Corebot reads for it: the command can read the same by itself.
const Patience = 3 * time.Second

// NewReader reads a home, and waits for a Corebot for as long as its patience.
func NewReader(home string, patience time.Duration) *Reader {
	return &Reader{home: home, patience: patience}
}

// Call implements [control.Caller].
func (r *Reader) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	if !r.alone && operate.KindOf(name) != operate.Walk {
		if raw, err := r.ask(ctx, name, args); err == nil || ctx.Err() != nil {
			return raw, err
		}
		r.alone = true // should the error be one of the database, it comes again here
	}
	// The database is open for one page only: a command that prints slowly holds nothing up.
	db, err := storage.OpenReader(ctx, DataDir(r.home))
	if err != nil {
		return nil, err
	}
	raw, err := operate.Operations(service(db), true).Call(ctx, name, args)
	return raw, errors.Join(err, db.Close())
}

var errNoCorebot = errors.New("no Corebot runs on this home")

// ask asks the Corebot that runs on the home.
func (r *Reader) ask(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	client, running, err := control.Dial(ctx, DataDir(r.home))
	if err != nil {
		return nil, err
	}
	if !running {
		return nil, errNoCorebot
	}
	return client.Call(ctx, name, args)
}
