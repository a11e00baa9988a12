package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/live"
)

// attached is a terminal of this process at the daemon that runs on the home: what is typed goes to the daemon's front door, what the daemon
// sends is shown here.
type attached struct {
	daemon control.Caller
	chat   string
	id     string // of the session
	model  string
	shown  string // the last message that was shown here, until the daemon knows
	events live.Hub
}

// attach opens the chat at the daemon.
func (a *attached) attach(ctx context.Context) error {
	a.id = uuid.Must(uuid.NewV7()).String()
	hello, err := control.Call[app.Attached](ctx, a.daemon, app.OpAttach, app.Terminal{Chat: a.chat, Session: a.id})
	a.model = hello.Model
	return err
}

// Accept implements [channels.Door] at the daemon's.
func (a *attached) Accept(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	return control.Call[channels.Accepted](ctx, a.daemon, app.OpSend, in)
}

// run talks until the channel ends, showing what the daemon has for this chat.
func (a *attached) run(ctx context.Context, c channels.Channel) error {
	if a.id == "" { // only to publish
		return c.Run(ctx, a)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		if err := a.pump(ctx, c); err != nil {
			stop(err) // nothing more would ever be shown
		}
	}()
	err := c.Run(ctx, a)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	stop(nil)
	<-pumped
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = control.Call[app.Done](bye, a.daemon, app.OpDetach, app.Terminal{Chat: a.chat, Session: a.id, Shown: a.shown}) // else its silence tells
	return err
}

// pump fetches until ctx ends.
func (a *attached) pump(ctx context.Context, c channels.Channel) error {
	for {
		f, err := control.Call[cli.Fetched](ctx, a.daemon, app.OpFetch, app.Terminal{Chat: a.chat, Session: a.id, Shown: a.shown})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		a.shown = ""
		for _, e := range f.Events {
			a.events.Publish(e)
		}
		if f.Message != nil {
			m := *f.Message
			m.Key, m.Kind, m.Direction = a.key(), f.Kind, corebot.Outbound
			if c.Send(ctx, m) == nil {
				a.shown = m.ID
			}
		}
	}
}

func (a *attached) key() corebot.Key {
	return corebot.Key{Agent: corebot.DefaultAgent, Channel: "cli", Account: cli.DefaultAccount, Chat: a.chat}
}
