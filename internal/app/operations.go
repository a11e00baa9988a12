package app

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/witness"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
)

// Change gives fn a caller for the operations of a home. The caller reaches the Corebot that runs on the home. If none
// runs, it makes the changes in this process, with the home locked. The limits of the queue hold only in a running
// Corebot: without one, nothing else fills the queue.
func Change(ctx context.Context, home string, fn func(control.Caller) error) error {
	return Locked(ctx, home, func() error {
		client, running, err := control.Dial(ctx, DataDir(home))
		switch {
		case err != nil:
			return err
		case running:
			return fn(client)
		}
		return withStore(ctx, home, func(db *storage.DB) error {
			return fn(operate.Operations(settled(db, home), false))
		})
	})
}

// WithStore opens the store of a home for this process alone, with its writer running. It refuses beside a running
// Corebot.
func WithStore(ctx context.Context, home string, fn func(*storage.DB) error) error {
	return Locked(ctx, home, func() error { return withStore(ctx, home, fn) })
}

func withStore(ctx context.Context, home string, fn func(*storage.DB) error) error {
	c, err := LoadConfig(home)
	if err != nil { // settings that are wrong keep nobody from repairing the home
		c = config.Defaults()
	}
	db, err := storage.Open(ctx, DataDir(home), storage.Options{
		Keeper: c.Chats.Keeper(),
		Log:    zerolog.Nop(), KeepDeferred: true, Speaks: CanSpeak,
		Owner: func() corebot.Principal { return ownerOf(home) }, Attends: attends,
	})
	if err != nil {
		return err
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- db.Run(writing) }()
	err = fn(db)
	stop()
	return errors.Join(err, <-ended, db.Close())
}

// ownerOf is the owner of a home at its terminal: whom the kernel names as the owner of the directory. Without an id
// there is none.
func ownerOf(home string) corebot.Principal {
	if uid, ok := owned.Owner(home); ok {
		return corebot.AtTerminal(uid)
	}
	return corebot.Principal{}
}

// attends says whether somebody can be a principal at a terminal of this machine.
func attends(p corebot.Principal) bool {
	uid, err := strconv.Atoi(p.ID)
	return err == nil && owned.LogsIn(uid)
}

var (
	_ operate.DeadLetters  = (*storage.DeadLetters)(nil)
	_ operate.Replays      = (*storage.DeadLetters)(nil)
	_ operate.Lives        = (*storage.Lives)(nil)
	_ operate.Audit        = (*storage.Audit)(nil)
	_ operate.Witness      = auditKeys{}
	_ witness.Trail        = (*storage.Audit)(nil)
	_ witness.Chain        = (*storage.Audit)(nil)
	_ operate.Chats        = (*storage.Chats)(nil)
	_ operate.ChatSettings = (*storage.Chats)(nil)
	_ operate.Sessions     = (*storage.Sessions)(nil)
	_ operate.Links        = (*storage.Links)(nil)
	_ operate.History      = (*storage.History)(nil)
	_ operate.Roles        = (*storage.Grants)(nil)
	_ operate.Approvals    = (*storage.Approvals)(nil)
	_ operate.Pairings     = (*storage.Pairings)(nil)
	_ operate.Tokens       = (*storage.Tokens)(nil)
	_ operate.Console      = (*storage.Console)(nil)
	_ operate.Books        = (*storage.Books)(nil)
	_ operate.Deferred     = (*storage.Deferred)(nil)
	_ operate.Figures      = figures{}
	_ operate.Waits        = (*storage.Waits)(nil)
	_ operate.Jobs         = (*storage.Jobs)(nil)
	_ operate.Tasks        = (*storage.Tasks)(nil)
	_ operate.Planner      = scheduler.Planner{}
	_ operate.Backups      = (*backup.Keeper)(nil)
	_ backup.Database      = (*storage.DB)(nil)
	_ operate.Agents       = home{}
	_ operate.Agents       = running{}
	_ operate.Memories     = home{}
	_ operate.Memories     = running{}
	_ operate.Facts        = (*storage.Facts)(nil)
	_ operate.Attached     = (*storage.Attached)(nil)
	_ operate.Forgetter    = forgetter{}
	_ operate.Contexts     = running{}
	_ operate.Vitals       = running{}
	_ operate.Corebot      = running{}
)

// settled is the admin service on a home on which no Corebot of this process runs. Without a database it can only read
// settings and files.
func settled(db *storage.DB, dir string) *operate.Service {
	c, err := LoadConfig(dir)
	if err != nil { // settings that are wrong hide nothing
		c = config.Defaults()
		c.Home = dir
	}
	gate, err := (&App{config: c, networks: Networks(), serves: true}).taskGate(db)
	if err != nil {
		gate = &taskGate{err: err}
	}
	all := stores(db, c, accountingOf(dir), home{dir, db}, gate)
	if db != nil {
		all.Backups = onRequest{db, c}
	}
	return operate.New(all)
}

// stores are what the admin service works on.
func stores(db *storage.DB, c config.Config, accounting func() corebot.Accounting,
	agents interface {
		operate.Agents
		operate.Memories
	}, gate *taskGate,
) operate.Stores {
	chats := storage.NewChats(db)
	return operate.Stores{
		DeadLetters: storage.NewDeadLetters(db), Replays: storage.NewDeadLetters(db), Lives: storage.NewLives(db),
		Audit: storage.NewAudit(db), Witness: auditKeys{c.Home, storage.NewAudit(db)},
		Chats: chats, ChatSettings: chats, Sessions: storage.NewSessions(db), Links: storage.NewLinks(db),
		History: storage.NewHistory(db), Roles: storage.NewGrants(db),
		Sayings:   storage.NewVectors(db, storage.VectorOptions{}), // by words: vectors need a running Corebot
		Approvals: storage.NewApprovals(db), Books: storage.NewBooks(db), Deferred: storage.NewDeferred(db),
		Figures: figures{db, accounting}, Agents: agents, Owner: ownerOf(c.Home),
		Waits: storage.NewWaits(db), Jobs: storage.NewJobs(db),
		Tasks: storage.NewTasks(db), Planner: planner(c, gate), Pairings: storage.NewPairings(db),
		Tokens: storage.NewTokens(db), Console: storage.NewConsole(db), Memories: agents, Facts: storage.NewFacts(db),
		Forgetter: forgetter{db, c.Home, newFiles(db, c, nil).Store, noPrograms, nil},
		Attached:  storage.NewAttached(db),
	}
}

// accountingOf is how a home books usage, for a process that reads it beside whatever runs there. Settings that are
// wrong hide nothing: without them days are those of UTC.
func accountingOf(home string) func() corebot.Accounting {
	return func() corebot.Accounting {
		c, err := LoadConfig(home)
		if err != nil {
			return corebot.Accounting{}
		}
		a, err := c.Accounting()
		if err != nil {
			return corebot.Accounting{}
		}
		return a
	}
}

// Reader carries out operations that only read, for commands. It asks the Corebot that runs on a home. If none runs, or
// the Corebot cannot answer, the reader reads the query-only database in this process. An older Corebot does not know
// every operation, and a Corebot that hangs answers none.
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
	if operate.KindOf(name) == operate.Files {
		return operate.Operations(settled(nil, r.home), true).Call(ctx, name, args)
	}
	// The database is open for one page only: a command that prints slowly holds nothing up.
	db, err := storage.OpenReader(ctx, DataDir(r.home))
	if err != nil {
		return nil, err
	}
	raw, err := operate.Operations(settled(db, r.home), true).Call(ctx, name, args)
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
