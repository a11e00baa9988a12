package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

var (
	_ serve.Mailbox = (*storage.Mailbox)(nil)
	_ serve.Admin   = (*operate.Service)(nil)
	_ serve.Changes = (*storage.ClientCalls)(nil)
	_ serve.Trail   = (*storage.Audit)(nil)
	_ serve.Backend = clients{}
)

// openClients makes the channel of MCP clients.
func (a *App) openClients(_ context.Context, r prometheus.Registerer) (channels.Channel, error) {
	rules, err := Rules(a.config)
	if err != nil {
		return nil, err
	}
	c := a.config.MCP.Serve
	a.clients, err = serve.New(serve.Store{
		Mailbox: storage.NewMailbox(a.Store), Admin: a.service,
		Changes: storage.NewClientCalls(a.Store), Trail: storage.NewAudit(a.Store), Roles: storage.NewGrants(a.Store),
	}, rules, serve.Options{
		Routing: a.routing(), Principal: c.Principal, MaxWait: c.MaxWait,
		Status:   func(ctx context.Context) (any, error) { return a.statusNow(ctx) },
		Tools:    []tools.Tool{builtin.DeadLetterList(a.service), builtin.DeadLetterReplay()},
		Redactor: a.redactor, Log: a.log, Metrics: r,
	})
	return a.clients, err
}

// webClients answers MCP clients over HTTP, if the settings say so.
func (a *App) webClients(ctx context.Context, r prometheus.Registerer) (*serve.Handler, error) {
	c := a.config.MCP.Serve
	server, err := serve.NewServer(ctx, a.clients, serve.ServerOptions{Version: a.version, Log: a.log})
	if err != nil {
		return nil, fmt.Errorf("serve MCP clients: %w", err)
	}
	return server.Web(serve.WebOptions{MaxSessions: c.MaxSessions, SessionIdle: c.SessionIdle, Metrics: r})
}

// The operations of MCP clients of other processes.
var (
	clientTools = operate.Declare[struct{}, []serve.Tool]("mcp.serve.tools")
	clientCall  = operate.Declare[serve.Call, serve.Result]("mcp.serve.call")
)

// clients is what MCP clients of this process reach at the Corebot that runs on the home.
type clients struct{ daemon control.Caller }

// ClientsOf is what MCP clients reach at a daemon.
func ClientsOf(daemon control.Caller) serve.Backend { return clients{daemon} }

// Tools implements [serve.Backend].
func (c clients) Tools(ctx context.Context) ([]serve.Tool, error) {
	return clientTools.Call(ctx, c.daemon, struct{}{})
}

// away is how long a daemon may be away in the middle of a call, as when it is started again.
const away = 15 * time.Second

// Call implements [serve.Backend]. Should the daemon go away, the call is made again once it is back, under one
// idempotency key: nothing happens twice.
func (c clients) Call(ctx context.Context, call serve.Call) (serve.Result, error) {
	if call.Key == "" {
		call.Key = uuid.Must(uuid.NewV7()).String() // fails only where Go ends the program before: no randomness
	}
	if len(call.Args) > 0 && !json.Valid(call.Args) { // it could not travel
		return serve.Result{Text: "invalid_args: the arguments are not JSON", Failed: true}, nil
	}
	var gone time.Time
	for {
		r, err := clientCall.Call(ctx, c.daemon, call)
		if lost := (*control.Lost)(nil); !errors.As(err, &lost) || ctx.Err() != nil {
			return r, err
		}
		if gone.IsZero() {
			gone = time.Now()
		}
		if time.Since(gone) > away {
			return r, err
		}
		backoff.Sleep(ctx, 200*time.Millisecond)
	}
}
