package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/storage"
)

// The arguments of the operations, as commands send them.
type (
	// Replay puts dead letters back into the queue: those that are named, or all that the filter means.
	Replay struct {
		IDs    []int64                   `json:"ids,omitempty"`
		Filter *corebot.DeadLetterFilter `json:"filter,omitempty"`
		Fresh  bool                      `json:"fresh"`
	}
	// Edit replays a dead letter with another text, under a new id.
	Edit struct {
		ID    int64  `json:"id"`
		NewID string `json:"newId"`
		Text  string `json:"text"`
	}
	// Drop gives dead letters up for good.
	Drop struct {
		IDs []int64 `json:"ids"`
	}
	// Purge drops all dead letters that the filter means.
	Purge struct {
		Filter corebot.DeadLetterFilter `json:"filter"`
	}
	// GiveUp has lanes that are set aside go on without the message that cannot be read.
	GiveUp struct {
		Lane int64 `json:"lane"`
	}
	// ChatChange registers a chat, or begins a new session in it.
	ChatChange struct {
		Key        corebot.Key `json:"key"`
		Registered bool        `json:"registered"`
		Name       string      `json:"name"`
	}
	// ModeChange sets the queue mode of a chat; an empty mode is the configured default.
	ModeChange struct {
		Key  corebot.Key       `json:"key"`
		Mode corebot.QueueMode `json:"mode"`
	}
	// AccessChange sets a chat apart from the rule of its channel; with "" no longer.
	AccessChange struct {
		Key    corebot.Key        `json:"key"`
		Access corebot.ChatAccess `json:"access"`
	}
	// Terminal names the terminal of a session in a chat. Shown is the id of the message that was fetched last, once it is shown; Again says that
	// the session was attached before.
	Terminal struct {
		Agent   string `json:"agent,omitempty"` // empty: the agent that answers in the chat
		Chat    string `json:"chat"`
		Session string `json:"session"`
		Shown   string `json:"shown,omitempty"`
		Again   bool   `json:"again,omitempty"`
	}
	// TerminalMessage names a message that came from a terminal.
	TerminalMessage struct {
		Agent string `json:"agent,omitempty"` // as of a Terminal
		Chat  string `json:"chat"`
		ID    string `json:"id"`
	}
	// Done is the result of an operation that has nothing to tell: how many things it changed.
	Done struct {
		Changed int    `json:"changed"`
		Left    int    `json:"left,omitempty"` // dead letters that stay because the queue has no room for them
		Why     string `json:"why,omitempty"`  // of the first of these
	}
)

// The names of the operations.
const (
	OpReplay   = "dlq.replay"
	OpEdit     = "dlq.edit"
	OpDrop     = "dlq.drop"
	OpPurge    = "dlq.purge"
	OpGiveUp   = "dlq.give-up"
	OpGrant    = "admin.grant"
	OpRevoke   = "admin.revoke"
	OpRegister = "chats.register"
	OpReset    = "chats.reset"
	OpMode     = "chats.mode"
	OpAccess   = "chats.access"
	OpReload   = "config.reload"
	OpHello    = "hello"
	OpSend     = "send"
	OpLife     = "terminal.life"
	OpAttach   = "terminal.attach"
	OpFetch    = "terminal.fetch"
	OpDetach   = "terminal.detach"
)

// storeOperations are the changes that need nothing but the store: a command can make them without a daemon.
func storeOperations(db *storage.DB) control.Operations {
	letters, grants, chats := storage.NewDeadLetters(db), storage.NewGrants(db), storage.NewChats(db)
	all := control.Operations{
		OpReplay: control.Typed(func(ctx context.Context, r Replay) (Done, error) {
			if r.Filter != nil {
				return replayAll(ctx, letters, *r.Filter, r.Fresh)
			}
			return each(r.IDs, func(id int64) error { return letters.Replay(ctx, id, r.Fresh) })
		}),
		OpEdit: control.Typed(func(ctx context.Context, e Edit) (Done, error) {
			return Done{Changed: 1}, letters.Edit(ctx, e.ID, e.NewID, e.Text)
		}),
		OpDrop: control.Typed(func(ctx context.Context, d Drop) (Done, error) {
			return each(d.IDs, func(id int64) error { return letters.Drop(ctx, id) })
		}),
		OpPurge: control.Typed(func(ctx context.Context, p Purge) (Done, error) {
			n, err := letters.Purge(ctx, p.Filter)
			return Done{Changed: n}, err
		}),
		OpGiveUp: control.Typed(func(ctx context.Context, g GiveUp) (corebot.Origin, error) {
			return letters.GiveUp(ctx, g.Lane)
		}),
		OpGrant: control.Typed(func(ctx context.Context, g corebot.Grant) (Done, error) {
			return Done{Changed: 1}, grants.Grant(ctx, g)
		}),
		OpRevoke: control.Typed(func(ctx context.Context, g corebot.Grant) (Done, error) {
			return Done{Changed: 1}, grants.Revoke(ctx, g.Principal, g.Chat)
		}),
		OpRegister: control.Typed(func(ctx context.Context, c ChatChange) (Done, error) {
			return Done{Changed: 1}, chats.Register(ctx, c.Key, c.Registered, c.Name)
		}),
		OpReset: control.Typed(func(ctx context.Context, c ChatChange) (Done, error) {
			return Done{Changed: 1}, chats.Reset(ctx, c.Key)
		}),
		OpMode: control.Typed(func(ctx context.Context, c ModeChange) (Done, error) {
			return Done{Changed: 1}, chats.SetQueueMode(ctx, c.Key, c.Mode)
		}),
		OpAccess: control.Typed(func(ctx context.Context, c AccessChange) (Done, error) {
			return Done{Changed: 1}, chats.SetAccess(ctx, c.Key, c.Access)
		}),
	}
	usageOperations(db, all)
	all[OpMCPApprove] = approveMCP(db)
	approvalOperations(db, all)
	return all
}

func replayAll(ctx context.Context, letters *storage.DeadLetters, f corebot.DeadLetterFilter, fresh bool) (Done, error) {
	r, err := letters.ReplayAll(ctx, f, fresh)
	done := Done{Changed: r.Done, Left: r.Left}
	if r.Why != nil {
		done.Why = r.Why.Error()
	}
	return done, err
}

// each changes one thing after the other and stops at the first that fails; what was changed before stays, and is said.
func each(ids []int64, change func(int64) error) (Done, error) {
	for n, id := range ids {
		if err := change(id); err != nil {
			if n > 0 {
				err = fmt.Errorf("%d changed, then: %w", n, err)
			}
			return Done{Changed: n}, err
		}
	}
	return Done{Changed: len(ids)}, nil
}

// Change gives fn a way to the operations of a home: through the Corebot that runs on it or, if none runs, in this process with the home locked. The
// limits of the queue hold in a running Corebot; with none, nothing else fills it.
func Change(ctx context.Context, home string, fn func(control.Caller) error) error {
	return Locked(ctx, home, func() error {
		client, running, err := control.Dial(ctx, DataDir(home))
		switch {
		case err != nil:
			return err
		case running:
			return fn(client)
		}
		return withStore(ctx, home, func(db *storage.DB) error { return fn(storeOperations(db)) })
	})
}

// WithStore opens the store of a home for this process alone, with its writer running. It refuses beside a running Corebot.
func WithStore(ctx context.Context, home string, fn func(*storage.DB) error) error {
	return Locked(ctx, home, func() error { return withStore(ctx, home, fn) })
}

func withStore(ctx context.Context, home string, fn func(*storage.DB) error) error {
	db, err := storage.Open(ctx, DataDir(home), storage.Options{Log: zerolog.Nop(), KeepParked: true, Speaks: CanSpeak})
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
