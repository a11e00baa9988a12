package app

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// The arguments of the operations, as commands send them.
type (
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
)

// The names of the operations.
const (
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
	grants, chats := storage.NewGrants(db), storage.NewChats(db)
	all := control.Operations{
		OpGrant: control.Typed(func(ctx context.Context, g corebot.Grant) (operate.Done, error) {
			return operate.Done{Changed: 1}, grants.Grant(ctx, g)
		}),
		OpRevoke: control.Typed(func(ctx context.Context, g corebot.Grant) (operate.Done, error) {
			return operate.Done{Changed: 1}, grants.Revoke(ctx, g.Principal, g.Chat)
		}),
		OpRegister: control.Typed(func(ctx context.Context, c ChatChange) (operate.Done, error) {
			return operate.Done{Changed: 1}, chats.Register(ctx, c.Key, c.Registered, c.Name)
		}),
		OpReset: control.Typed(func(ctx context.Context, c ChatChange) (operate.Done, error) {
			return operate.Done{Changed: 1}, chats.Reset(ctx, c.Key)
		}),
		OpMode: control.Typed(func(ctx context.Context, c ModeChange) (operate.Done, error) {
			return operate.Done{Changed: 1}, chats.SetQueueMode(ctx, c.Key, c.Mode)
		}),
		OpAccess: control.Typed(func(ctx context.Context, c AccessChange) (operate.Done, error) {
			return operate.Done{Changed: 1}, chats.SetAccess(ctx, c.Key, c.Access)
		}),
	}
	usageOperations(db, all)
	all[OpMCPApprove] = approveMCP(db)
	approvalOperations(db, all)
	maps.Copy(all, operate.Operations(service(db), false))
	return all
}

// each changes one thing after the other and stops at the first that fails; what was changed before stays, and is said.
func each(ids []int64, change func(int64) error) (operate.Done, error) {
	for n, id := range ids {
		if err := change(id); err != nil {
			if n > 0 {
				err = fmt.Errorf("%d changed, then: %w", n, err)
			}
			return operate.Done{Changed: n}, err
		}
	}
	return operate.Done{Changed: len(ids)}, nil
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
