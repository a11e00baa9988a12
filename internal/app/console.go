package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/api"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/console"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/httpapi"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

var (
	_ httpapi.Tokens   = (*storage.Tokens)(nil)
	_ httpapi.Talk     = (*api.Channel)(nil)
	_ api.Mailbox      = (*storage.Mailbox)(nil)
	_ console.Sessions = (*storage.Console)(nil)
	_ console.Notices  = (*storage.Mailbox)(nil)
	_ console.Control  = (*router.Router)(nil)
	_ console.Facts    = facts{}
)

// openAPI makes the channel of programs that use the HTTP API.
func (a *App) openAPI(context.Context, prometheus.Registerer) (channels.Channel, error) {
	a.talk = api.New(storage.NewMailbox(a.Store), func(corebot.Key) {})
	return a.talk, nil
}

// revocations are the tokens of the admin service: what a revoked token holds open ends at once.
type revocations struct {
	operate.Tokens
	of *App
}

// Revoke implements [operate.Tokens].
func (r revocations) Revoke(ctx context.Context, name string) (corebot.Token, error) {
	t, err := r.Tokens.Revoke(ctx, name)
	if err == nil && r.of.console != nil {
		r.of.console.Revoked(t.ID)
	}
	return t, err
}

// logouts are the sessions of the admin service: what a session holds open ends with it.
type logouts struct {
	operate.Console
	of *App
}

// Revoke implements [operate.Console].
func (l logouts) Revoke(ctx context.Context, id int64) error {
	err := l.Console.Revoke(ctx, id)
	if err == nil && l.of.pages != nil {
		l.of.pages.LoggedOut()
	}
	return err
}

// openConsole listens for browsers, and for programs that use the HTTP API. A port in use is an error only if somebody
// asked for the console: otherwise Corebot runs without it.
func (a *App) openConsole() error {
	var pages http.Handler
	if a.pages != nil {
		pages = a.openPages()
	}
	server, err := httpapi.NewServer(httpapi.Options{
		Rest: pages,
		Addr: a.config.Console.Addr, AllowedHosts: a.config.Console.AllowedHosts.Values(),
		Tokens: storage.NewTokens(a.Store), Service: a.serviceOf, Talk: a.talk, Live: a.Live,
		Files: a.files, Agents: a.agentIDs(),
		Redact: a.redactor.Text, Version: a.version, Log: a.log,
	})
	if err != nil && !a.config.ConsoleAsked {
		a.log.Warn().Err(err).Str("hint", corebot.HintOf(err)).Msg("the console does not listen; all else runs")
		return nil
	}
	if err != nil {
		return err
	}
	a.console = server
	a.opened("console listener", server)
	return nil
}

// checkConsole says whether the console listens, or could at the next start.
func checkConsole(ctx context.Context, c config.Config) (f []Finding) {
	if !c.Console.Enabled {
		return nil
	}
	mend := "choose another console.addr, or port 0 for any, and start Corebot again"
	if client, running, err := control.Dial(ctx, DataDir(c.Home)); running && err == nil {
		hello, err := operate.Greet.Call(ctx, client, struct{}{})
		switch {
		case err != nil:
			return []Finding{fail("the console", err)}
		case hello.Daemon && hello.Console == "":
			return []Finding{warn(mend, "the console does not listen at %s: the log of the start says why",
				c.Console.Addr)}
		case hello.Daemon:
			return []Finding{ok("the console is at http://%s", hello.Console)}
		}
	}
	l, err := net.Listen("tcp", c.Console.Addr)
	if err != nil && c.ConsoleAsked {
		return []Finding{fail("the console", corebot.WithHint(err, mend))}
	}
	if err != nil {
		return []Finding{warn(mend, "the console will not listen: %v", err)}
	}
	_ = l.Close() // it was only tried
	return []Finding{ok("the console can listen at %s", c.Console.Addr)}
}

// openConsoleChannel makes the channel of the pages.
func (a *App) openConsoleChannel(context.Context, prometheus.Registerer) (channels.Channel, error) {
	a.pages = console.NewChannel(storage.NewMailbox(a.Store))
	return a.pages, nil
}

// openPages makes the pages of the console, for the owner of the home.
func (a *App) openPages() http.Handler {
	owner := a.stores.Owner
	if owner.ID != "" {
		owner = owner.AtConsole()
	}
	host, _, _ := net.SplitHostPort(a.config.Console.Addr)
	by := corebot.AuditEvent{Entry: corebot.EntryConsole, Principal: owner, Role: corebot.RoleAdmin}
	return console.New(console.Options{
		Service: a.serviceOf, Owner: owner, Sessions: storage.NewConsole(a.Store).As(by), Channel: a.pages,
		Control: a.router, Notices: storage.NewMailbox(a.Store), Live: a.Live, Facts: facts{a}, Redact: a.redactor.Text,
		Files: a.files,
		// Elsewhere a proxy with TLS is in front.
		Secure: !config.IsLoopback(host), Version: a.version, Log: a.log,
	}).Handler()
}

// Login implements [operate.Corebot].
func (r running) Login(code string) string {
	if r.console == nil || r.pages == nil {
		return ""
	}
	return "http://" + r.console.Addr() + "/login#" + code
}

// facts is what the pages ask this Corebot for.
type facts struct{ *App }

// Settings implements [console.Facts].
func (f facts) Settings() ([]console.Setting, error) {
	all, err := ExplainConfig(f.config.Home)
	if err != nil {
		return nil, err
	}
	var out []console.Setting
	for _, v := range all.Values {
		out = append(out, console.Setting{
			Key: v.Key, Value: fmt.Sprint(v.Value), From: strings.TrimSpace(string(v.From) + " " + v.Where),
		})
	}
	return out, nil
}

// Samples implements [console.Facts].
func (f facts) Samples(ctx context.Context, after time.Time) ([]corebot.Sample, error) {
	return storage.NewSamples(f.Store).Since(ctx, after)
}

// CheckAccount implements [console.Facts].
func (f facts) CheckAccount(ctx context.Context, name operate.AccountName) (string, error) {
	fresh, err := LoadConfig(f.config.Home)
	if err != nil {
		return "", err
	}
	checked := CheckAccounts(ctx, fresh, func(a channels.Account) bool {
		return a.Kind == name.Kind && (a.Name == name.Account || name.Account == "")
	})
	switch {
	case len(checked) == 0:
		return "", fmt.Errorf("the account %s: %w", name, corebot.ErrNotFound)
	case !checked[0].OK:
		c := checked[0]
		return fmt.Sprintf("%s does not work: %s. Hint: %s", name, c.Error, cmp.Or(c.Advice, "none")), nil
	}
	return fmt.Sprintf("%s works: %s", name, checked[0].Says), nil
}

// KnownAgents implements [console.Facts].
func (f facts) KnownAgents() []string {
	all := []string{f.config.DefaultAgent()}
	for _, a := range f.config.AgentList() {
		if a.ID != all[0] {
			all = append(all, a.ID)
		}
	}
	return all
}

// serviceOf is the admin service of this Corebot, for changes by somebody else than the operator at the terminal.
func (a *App) serviceOf(by corebot.AuditEvent) *operate.Service {
	s := a.stores
	s.DeadLetters, s.Replays = storage.NewDeadLetters(a.Store).As(by), storage.NewDeadLetters(a.Store).As(by)
	s.Chats, s.Console = storage.NewChats(a.Store).As(by), logouts{storage.NewConsole(a.Store).As(by), a}
	s.ChatSettings, s.Roles = storage.NewChats(a.Store).As(by), storage.NewGrants(a.Store).As(by)
	s.Approvals, s.Pairings = storage.NewApprovals(a.Store).As(by), storage.NewPairings(a.Store).As(by)
	s.Facts = storage.NewFacts(a.Store).As(by)
	s.Waits, s.Jobs = storage.NewWaits(a.Store).As(by), storage.NewJobs(a.Store).As(by)
	s.Tasks, s.Tokens = storage.NewTasks(a.Store).As(by), revocations{storage.NewTokens(a.Store).As(by), a}
	return operate.NewRunning(running{a}, s)
}

// ConsoleAddr is where the HTTP API is; empty if it is not.
func (a *App) ConsoleAddr() string {
	if a.console == nil {
		return ""
	}
	return a.console.Addr()
}
