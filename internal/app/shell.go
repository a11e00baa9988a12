package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// programs is the isolation as shell.exec sees it: both say the same of a program, each in a type of its own.
type programs struct{ *isolation.Runner }

func (p programs) Run(ctx context.Context, c builtin.Command) (builtin.Ended, error) {
	end, err := p.Runner.Run(ctx, isolation.Command(c))
	return builtin.Ended(end), err
}

// shellTool makes shell.exec. Where it is not enabled it is there all the same, for policy to deny it, and has no program to run.
func (a *App) shellTool() (tools.Tool, error) {
	runner, err := openRunner(a.config)
	if err != nil {
		return tools.Tool{}, err
	}
	a.opened("isolation", runner)
	shell := a.config.Tools.Shell
	if shell.Enabled {
		logWalls(a.log, runner)
	}
	return builtin.Shell(programs{runner}, runner.Programs(), shell.Timeout), nil
}

func openRunner(c config.Config) (*isolation.Runner, error) {
	o := isolation.Options{
		Env: c.Tools.AllowedEnv.Values(), Readable: c.Isolation.Readable.Values(), Closed: []string{c.Home}, UID: c.Isolation.UID, MaxWorkers: c.Isolation.MaxWorkers,
	}
	if c.Tools.Shell.Enabled {
		o.Allow = c.Tools.Shell.Allow.Values()
	}
	return isolation.New(filepath.Join(c.Home, "workspace"), o)
}

// logWalls says what the kernel gives. That it gives too little is no reason not to start: each call says so.
func logWalls(log zerolog.Logger, r *isolation.Runner) {
	w, err := r.Inspect(context.Background())
	switch {
	case err != nil:
		log.Error().Err(err).Str("tool", "shell.exec").Msg("no program can run here")
	case len(w.Open()) > 0:
		log.Warn().Str("tool", "shell.exec").Str("walls", string(w.Mode)).Int("uid", w.UID).Str("why", w.NoRoom).Strs("open", w.Open()).Msg("programs run behind weaker walls")
	default:
		log.Info().Str("tool", "shell.exec").Str("walls", string(w.Mode)).Int("uid", w.UID).Int("landlock", w.Landlock).Msg("programs run behind walls")
	}
}

// checkShell shows what this kernel gives for programs, and what stays open.
func checkShell(ctx context.Context, c config.Config) []Finding {
	if !c.Tools.Shell.Enabled {
		return []Finding{ok("shell.exec is not enabled (tools.shell.enabled)")}
	}
	if _, err := os.Stat(filepath.Join(c.Home, "workspace")); err != nil {
		return []Finding{warn("`corebot init` makes it", "what shell.exec can do is not known: there is no workspace yet")}
	}
	runner, err := openRunner(c)
	if err != nil {
		return []Finding{fail("shell.exec", err)}
	}
	defer runner.Close() //nolint:errcheck // only looked at
	w, err := runner.Inspect(ctx)
	if err != nil {
		return []Finding{fail("shell.exec", err)}
	}
	names := strings.Join(runner.Programs(), ", ")
	if names == "" {
		names = "nothing (tools.shell.allow)"
	}
	findings := []Finding{ok("shell.exec may run %s, as user %d, with walls of %s (Landlock version %d, seccomp)", names, w.UID, w.Mode, w.Landlock)}
	if open := w.Open(); len(open) > 0 {
		findings = append(findings, warn("let Corebot make user, mount, PID and network namespaces: "+w.NoRoom, "shell.exec has no namespaces here, so %s", strings.Join(open, "; ")))
	}
	return findings
}
