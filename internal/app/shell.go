package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// programs is the isolation as shell.exec sees it: both say the same of a program, each in a type of its own.
type programs struct {
	*isolation.Runner
	root *rootfs.Root
}

// Run starts no program in a folder that holds more than its quota. It cannot stop a program that writes too much: it
// measures the folder once the program has ended.
func (p programs) Run(ctx context.Context, c builtin.Command) (builtin.Ended, error) {
	dir := rootfs.FilesDir(c.Key)
	if err := p.root.Admits(dir); err != nil {
		return builtin.Ended{}, fmt.Errorf("start a program: %w", err)
	}
	defer p.root.Changed(dir)
	end, err := p.Runner.Run(ctx, isolation.Command(c))
	return builtin.Ended(end), err
}

// withWorkers has the tools that isolation.tools names work in workers, and adds shell.exec. Where that is not enabled
// it is there all the same, for policy to deny it, and has no program to run.
func (a *App) withWorkers(all []tools.Tool, u *agentUnit, runner *isolation.Runner) ([]tools.Tool, error) {
	shell, err := a.shellTools(runner, u)
	if err != nil {
		return nil, err
	}
	if removed, err := runner.Sweep(); err != nil || removed > 0 {
		a.log.Info().Err(err).Int("directories",
			removed).Msg("swept what workers of a Corebot that was killed have left")
	}
	if err := a.isolate(all, runner, u.notes.root); err != nil {
		return nil, err
	}
	if users := usersOfWorkers(a.config); len(users) > 0 {
		logWalls(a.log.With().Strs("tools", users).Logger(), runner)
	}
	return append(all, shell...), nil
}

// usersOfWorkers are the tools that work in workers.
func usersOfWorkers(c config.Config) []string {
	users := c.Isolation.Tools.Values()
	if c.Tools.Shell.Runs() != config.ShellOff {
		users = append(users, builtin.ShellExec)
	}
	return users
}

func openRunner(c config.Config, p place) (*isolation.Runner, error) {
	return isolation.New(p.workspace(), isolationOptions(c))
}

func isolationOptions(c config.Config) isolation.Options {
	o := isolation.Options{
		Env: c.Tools.AllowedEnv.Values(), Readable: c.Isolation.Readable.Values(), Closed: []string{c.Home},
		UID: c.Isolation.UID, MaxWorkers: c.Isolation.MaxWorkers, Homes: filepath.Join(DataDir(c.Home), "programs"),
	}
	if runs := c.Tools.Shell.Runs(); runs == config.ShellHost || runs == config.ShellListed {
		o.Allow = c.Tools.Shell.Allow.Values()
	}
	return o
}

// logWalls logs which walls the kernel gives. Corebot starts even if there are too few: then each call fails and says
// so.
func logWalls(log zerolog.Logger, r *isolation.Runner) {
	w, err := r.Inspect(context.Background())
	switch {
	case err != nil:
		log.Error().Err(err).Msg("no worker can run here")
	case len(w.Open()) > 0:
		log.Warn().Str("walls", string(w.Mode)).Int("uid", w.UID).Str("why", w.NoRoom).Strs("open",
			w.Open()).Msg("workers run behind weaker walls")
	default:
		log.Info().Str("walls", string(w.Mode)).Int("uid", w.UID).Int("landlock",
			w.Landlock).Msg("workers run behind walls")
	}
}

// checkWorkers shows what this kernel gives for programs and tools in workers, and what stays open.
func checkWorkers(ctx context.Context, c config.Config) []Finding {
	if _, err := os.Stat(places(c)[0].workspace()); err != nil {
		return []Finding{warn("`corebot init` makes it", "what workers can do is not known: there is no workspace yet")}
	}
	runner, err := openRunner(c, places(c)[0])
	if err != nil {
		return []Finding{fail("workers", err)}
	}
	defer runner.Close() //nolint:errcheck // only looked at
	w, err := runner.Inspect(ctx)
	unused := len(usersOfWorkers(c)) == 0
	switch {
	case err != nil && unused:
		return []Finding{ok("no tool works in a worker, and none could: %v", err)}
	case err != nil:
		return []Finding{fail("workers", err)}
	case unused:
		what := fmt.Sprintf("no tool works in a worker (tools.shell.mode, isolation.tools); one would have walls "+
			"of %s (Landlock version %d, seccomp)", w.Mode, w.Landlock)
		if open := w.Open(); len(open) > 0 {
			what += ", and " + strings.Join(open, "; ")
		}
		return []Finding{ok("%s", what)}
	}
	var findings []Finding
	if c.Tools.Shell.Runs() == config.ShellSandbox {
		findings = append(findings, checkSandbox(ctx, c, runner))
		for _, err := range ProgramsLack(c) {
			findings = append(findings, warn(corebot.HintOf(err), "%v", err))
		}
	} else if c.Tools.Shell.Runs() != config.ShellOff {
		names := strings.Join(runner.Programs(), ", ")
		if names == "" {
			names = "nothing (tools.shell.allow)"
		}
		findings = append(findings, ok("shell.exec may run %s, as user %d, with walls of %s (Landlock version %d, "+
			"seccomp)", names, w.UID, w.Mode, w.Landlock))
	}
	if c.Tools.Shell.Runs() == config.ShellListed {
		findings = append(findings, ok("tools.shell.enabled is the older switch: tools.shell.mode says sandbox (any "+
			"program, in a room of its own) or host (the same list, and each call waits for an approval)"))
	}
	if isolated := c.Isolation.Tools.Values(); len(isolated) > 0 {
		findings = append(findings, ok("%s work in workers, with walls of %s (Landlock version %d, seccomp)",
			strings.Join(isolated, ", "), w.Mode, w.Landlock))
	}
	if open := w.Open(); len(open) > 0 {
		findings = append(findings, warn(betterWalls(w), "workers run behind weaker walls here: %s",
			strings.Join(open, "; ")))
	}
	return findings
}

// betterWalls says what would close what is open.
func betterWalls(w isolation.Walls) string {
	var hints []string
	if w.Mode == isolation.Bare {
		hints = append(hints, "let Corebot make user, mount, PID and network namespaces: "+w.NoRoom)
	}
	if !w.Once {
		hints = append(hints, "run Corebot where no container runtime listens to its system calls")
	}
	return strings.Join(hints, "; ")
}

// backgroundOutput is how much of what a program in the background prints is kept, in bytes.
const backgroundOutput = 256 << 10

// mountsOf lists the directories of the owner that programs in a sandbox see beside the chat's own. It is the one place
// that says so: the tools tell it to the model, and the sandbox mounts it.
func mountsOf(list roots.List) (all []isolation.Mount) {
	for _, d := range list.Dirs() {
		all = append(all, isolation.Mount{Path: d.Path, Write: d.Write})
	}
	return all
}

// mountsNow are the mounts as they are on the disk now, with what is closed to programs. Without write all of them are
// for reading. A directory that is not there is left out.
func mountsNow(disk *roots.Disk, write bool, uid int) (all []isolation.Mount, err error) {
	for _, d := range disk.List().Dirs() {
		m := isolation.Mount{Path: d.Path, Write: d.Write && write}
		m.From, err = disk.Where(d)
		if errors.Is(err, roots.ErrMissing) {
			continue
		}
		if err == nil {
			m.Hide, m.Keep, err = roots.ClosedToPrograms(m.From)
		}
		if err != nil {
			return nil, fmt.Errorf("tools.roots: %w", err)
		}
		m.Owned = lacks(isolation.Mount{Path: m.Path, From: m.From, Write: d.Write}, uid, nobodyOwns) != nil
		all = append(all, m)
	}
	return all, nil
}

// nobodyOwns is the answer of a machine on which programs are never mapped to the owner of a directory.
func nobodyOwns(string, int) error { return errors.ErrUnsupported }

// shellTools are the tools that run programs, as the settings say. Where programs are off the tools are there all the
// same, for policy to deny them.
func (a *App) shellTools(runner *isolation.Runner, u *agentUnit) ([]tools.Tool, error) {
	shell := a.config.Tools.Shell
	boxes, places, err := a.sandboxes(runner, u.notes.root)
	if err != nil {
		return nil, err
	}
	set, err := a.backgroundPrograms()
	if err != nil {
		return nil, err
	}
	all := builtin.BackgroundShell(boxes, places, set, shell.BackgroundLife)
	if shell.Runs() == config.ShellSandbox {
		return append(all, builtin.SandboxedShell(boxes, places, shell.Timeout)), nil
	}
	return append(all, builtin.Shell(programs{runner, u.notes.root}, runner.Programs(), shell.Timeout)), nil
}

// backgroundPrograms are those of all agents together.
func (a *App) backgroundPrograms() (*background.Set, error) {
	if a.programs != nil {
		return a.programs, nil
	}
	shell := a.config.Tools.Shell
	set, err := background.New(background.Limits{
		PerChat: shell.BackgroundPerChat, Total: shell.BackgroundTotal, Life: shell.BackgroundLife,
		Output: backgroundOutput,
	})
	if err != nil {
		return nil, err
	}
	a.programs = set
	a.opened("programs in the background", set)
	return set, nil
}

// sandboxes are the isolation as the tools of the shell see it.
type sandboxes struct {
	runner *isolation.Runner
	root   *rootfs.Root
	proxy  *egress.Proxy // nil: there is no network
	disk   *roots.Disk
	full   func() bool
	uid    int // who programs are; 0: Corebot's own user
}

func (a *App) sandboxes(runner *isolation.Runner, root *rootfs.Root) (sandboxes, builtin.Places, error) {
	s := sandboxes{runner: runner, root: root, disk: a.disk, full: diskFull(a.config), uid: userOfPrograms(a.config)}
	mounts := mountsOf(a.disk.List())
	places := builtin.Places{Domains: a.config.Tools.Shell.Domains.Values()}
	for _, m := range mounts {
		if m.Write {
			places.Write = append(places.Write, m.Path)
		} else {
			places.Read = append(places.Read, m.Path)
		}
	}
	if len(places.Domains) > 0 {
		var err error
		if s.proxy, err = egress.NewProxy(a.config.Tools.Shell.Targets(), egress.Options{}); err != nil {
			return s, places, fmt.Errorf("tools.shell.domains: %w", err)
		}
	}
	return s, places, nil
}

// diskFull says whether the disk of the home is under its floor.
func diskFull(c config.Config) func() bool {
	return func() bool {
		disk, err := storage.DiskAt(DataDir(c.Home))
		return err == nil && disk.Free < disk.Floor(c.Storage.DiskFloor)
	}
}

// RunSandboxed starts no program in a folder that holds more than its quota, or on a full disk.
func (s sandboxes) RunSandboxed(ctx context.Context, c builtin.SandboxCommand) (builtin.Ended, string, error) {
	dir := rootfs.FilesDir(c.Key)
	if err := s.root.Admits(dir); err != nil {
		return builtin.Ended{}, "", fmt.Errorf("start a program: %w", err)
	}
	if s.full() {
		return builtin.Ended{}, "", corebot.WithHint(errors.New("start a program: the disk is full"),
			"the operator makes room (storage.disk_floor)")
	}
	mounts, err := mountsNow(s.disk, c.Write, s.uid)
	if err != nil {
		return builtin.Ended{}, "", err
	}
	if err := enterable(mounts, c.Dir, s.uid, isolation.CanOwn); err != nil {
		return builtin.Ended{}, "", err
	}
	defer s.root.Changed(dir)
	command := isolation.Sandboxed{
		Key: c.Key, Argv: c.Argv, Dir: c.Dir, Mounts: mounts, Timeout: c.Timeout, Background: c.Background,
		Output: c.Output, Full: s.full,
	}
	var visits egress.Visits
	if c.Network && s.proxy != nil {
		command.Network = func(l net.Listener) { s.proxy.Serve(l, &visits) }
	}
	end, err := s.runner.RunSandboxed(ctx, command)
	return builtin.Ended(end), visits.String(), err
}

// checkSandbox says whether this machine has a sandbox, and what programs reach from there.
func checkSandbox(ctx context.Context, c config.Config, runner *isolation.Runner) Finding {
	if err := runner.CanSandbox(ctx); err != nil {
		return fail("tools.shell.mode is sandbox", err)
	}
	reach := "no network"
	if domains := c.Tools.Shell.Domains.Values(); len(domains) > 0 {
		reach = "a network of " + strings.Join(domains, ", ")
	}
	return ok("shell.exec runs any program in a sandbox, with the chat's files and %s", reach)
}

// userOfPrograms is who programs run as where Corebot is root; 0: as Corebot's own user.
func userOfPrograms(c config.Config) int {
	if os.Geteuid() != 0 {
		return 0
	}
	return c.Isolation.UID
}

// ProgramsLack says in which directories of the settings programs of a sandbox can do less than the settings let them.
// Where Corebot is root they are another user, whom the directories of root keep out.
func ProgramsLack(c config.Config) []error {
	if c.Tools.Shell.Runs() != config.ShellSandbox {
		return nil
	}
	list, err := openRoots(c)
	if err != nil {
		return nil // said of the settings already
	}
	var all []error
	for _, m := range mountsOf(list) {
		if err := lacks(m, userOfPrograms(c), isolation.CanOwn); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// lacks says what a user cannot do in a directory that programs see; nil: all that they are let, or nobody can tell.
// The argument owns says why the user cannot stand for the owner of the directory.
func lacks(m isolation.Mount, uid int, owns func(dir string, uid int) error) error {
	if uid == 0 {
		return nil
	}
	dir := cmp.Or(m.From, m.Path)
	rights, err := roots.RightsIn(dir, uid)
	what := "write in"
	switch {
	case err != nil || rights.Read && (rights.Write || !m.Write):
		return nil
	case owns(dir, uid) == nil:
		return nil
	case !rights.Read:
		what = "look into"
	}
	hint := fmt.Sprintf("run Corebot as a user of its own who owns the directory, or let that user in: setfacl -R -m "+
		"u:%d:rwX,d:u:%d:rwX %s", uid, uid, dir)
	if rights.Owner != 0 {
		hint = fmt.Sprintf("set isolation.uid to %d, who owns the directory", rights.Owner)
	}
	err = fmt.Errorf("programs are the user %d, since Corebot is root: that user cannot %s %s", uid, what, m.Path)
	return corebot.WithHint(err, hint)
}

// enterable refuses a program whose directory its user cannot look into. The kernel would only say that something is
// not permitted.
func enterable(mounts []isolation.Mount, dir string, uid int, owns func(dir string, uid int) error) error {
	if !filepath.IsAbs(dir) {
		return nil
	}
	for _, m := range mounts {
		if !rootfs.Within(dir, m.Path) {
			continue
		}
		if err := lacks(isolation.Mount{Path: m.Path, From: m.From}, uid, owns); err != nil {
			return fmt.Errorf("start a program: %w", err)
		}
	}
	return nil
}
