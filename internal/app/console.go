package app

import (
	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/httpapi"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

var _ httpapi.Tokens = (*storage.Tokens)(nil)

// openConsole listens for programs that use the HTTP API.
func (a *App) openConsole() (*httpapi.Server, error) {
	return httpapi.NewServer(httpapi.Options{
		Addr: a.config.Console.Addr, AllowedHosts: a.config.Console.AllowedHosts.Values(),
		Tokens: storage.NewTokens(a.Store), Service: a.serviceOf, Redact: a.redactor.Text, Version: a.version,
		Log: a.log,
	})
}

// serviceOf is the admin service of this Corebot, for changes by somebody else than the operator at the terminal.
func (a *App) serviceOf(by corebot.AuditEvent) *operate.Service {
	s := a.stores
	s.DeadLetters, s.Replays = storage.NewDeadLetters(a.Store).As(by), storage.NewDeadLetters(a.Store).As(by)
	s.ChatSettings, s.Roles = storage.NewChats(a.Store).As(by), storage.NewGrants(a.Store).As(by)
	s.Approvals, s.Pairings = storage.NewApprovals(a.Store).As(by), storage.NewPairings(a.Store).As(by)
	s.Waits, s.Jobs = storage.NewWaits(a.Store).As(by), storage.NewJobs(a.Store).As(by)
	s.Tasks, s.Tokens = storage.NewTasks(a.Store).As(by), storage.NewTokens(a.Store).As(by)
	return operate.In(running{a}, s)
}

// ConsoleAddr is where the HTTP API is; empty if it is not.
func (a *App) ConsoleAddr() string {
	if a.console == nil {
		return ""
	}
	return a.console.Addr()
}
