package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// The arguments of the operations, as commands send them.
type (
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
	OpReload   = "config.reload"
	OpHello    = "hello"
	OpChannels = "channels.list"
	OpSend     = "send"
	OpLife     = "terminal.life"
	OpAttach   = "terminal.attach"
	OpFetch    = "terminal.fetch"
	OpDetach   = "terminal.detach"
)

// storeOperations are the operations that need nothing but the store: a command can carry them out without a daemon.
func storeOperations(db *storage.DB, s *operate.Service) control.Operations {
	all := operate.Operations(s, false)
	all[OpMCPApprove] = approveMCP(db)
	return all
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
		return withStore(ctx, home, func(db *storage.DB) error { return fn(storeOperations(db, service(db, accountingOf(home)))) })
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
