package isolation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/sorted"
)

// ErrNoSandbox is in the error where the kernel gives no room: there is no sandbox without one.
var ErrNoSandbox = errors.New("this machine cannot make a sandbox")

// proxyPort is where a sandbox finds its way out, on its own loopback.
const proxyPort = 3128

// Limits of the home of a chat's programs. A home that has more is emptied before the next program begins.
const (
	maxHomeBytes   = 2 << 30
	maxHomeEntries = 200_000
)

// Mount is a directory of the owner that programs in a sandbox see, under its own name.
type Mount struct {
	Path  string `json:"path"`           // absolute and clean: what the sandbox calls it
	From  string `json:"from,omitempty"` // where it is, without symbolic links; empty: the same
	Write bool   `json:"write,omitempty"`
	// Hide are files and directories in it that the sandbox has empty. Keep are those that it only reads. They are
	// relative, and no part of them is a symbolic link. A path that is not there any more refuses the program.
	Hide []string `json:"hide,omitempty"`
	Keep []string `json:"keep,omitempty"`
	// Owned: where Corebot is root, the program does there what the owner of the directory may, and makes files that
	// are the owner's. See [CanOwn]. Where that cannot be, the program is who it is elsewhere.
	Owned bool `json:"-"`
}

// Sandboxed is any program, to be run in a room of its own. It sees the system's programs and libraries, the chat's
// files as /work, a home of the chat as /sandbox, a temporary directory, and the mounts.
type Sandboxed struct {
	Key     corebot.Key
	Argv    []string // the first is a program of the room: a name, or a path there
	Dir     string   // where it begins: an absolute path in the room, or one relative to the chat's files
	Mounts  []Mount
	Timeout time.Duration // of waiting for a worker and running, together; over zero
	// Network serves the room's way out, a listener at which programs find a proxy, until it is closed. Nil: the
	// program reaches its own loopback only.
	Network func(net.Listener)
	// Background: the program waits for no place among the workers and takes none. The caller bounds how many there
	// are.
	Background bool
	Output     io.Writer // takes the output as it comes, of one writer at a time; nil: Ended has it
	// Full says that the disk has no room for more; the program is killed then. Nil: nobody looks.
	Full func() bool
}

// RunSandboxed runs a program in a sandbox and returns when nothing of it is left. A program that is missing has ended
// with 127, as in a shell. The error is [ErrNoSandbox] where the kernel gives no room.
func (r *Runner) RunSandboxed(ctx context.Context, c Sandboxed) (Ended, error) {
	if err := c.check(); err != nil {
		return Ended{}, err
	}
	bounded, stop := context.WithTimeoutCause(ctx, c.Timeout, errDeadline)
	defer stop()
	leave := func(error) {}
	if !c.Background {
		var err error
		if leave, err = r.enter(bounded, ""); err != nil {
			return Ended{}, err
		}
	}
	end, err := r.runSandboxed(bounded, c)
	if errors.Is(err, ErrNoSandbox) || errors.Is(err, corebot.ErrInvalid) {
		leave(nil) // the worker is not to blame
	} else {
		leave(err)
	}
	if ctx.Err() != nil {
		return end, context.Cause(ctx)
	}
	return end, err
}

func (c Sandboxed) check() error {
	if err := checkArgv(c.Argv); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return fmt.Errorf("%w: timeout %v: want a time over zero", corebot.ErrInvalid, c.Timeout)
	}
	if strings.IndexByte(c.Dir, 0) >= 0 || len(c.Dir) > 4096 {
		return fmt.Errorf("%w: the directory is no path", corebot.ErrInvalid)
	}
	return CheckMounts(c.Mounts)
}

// CheckMounts refuses directories that would cover what a room has itself.
func CheckMounts(mounts []Mount) error {
	for _, m := range mounts {
		if !filepath.IsAbs(m.Path) || filepath.Clean(m.Path) != m.Path {
			return fmt.Errorf("%w: %q is not a clean absolute path", corebot.ErrInvalid, m.Path)
		}
		for _, own := range append(systemDirs(), roomDir, roomTmp, roomHome, "/dev", "/etc", "/proc", "/sys") {
			if m.Path == own || within(own, m.Path) || own != roomTmp && within(m.Path, own) {
				return corebot.WithHint(fmt.Errorf("%w: a sandbox has its own %s, and cannot show %s",
					corebot.ErrInvalid,
					own, m.Path), "name a directory elsewhere")
			}
		}
	}
	return nil
}

// place is where the program begins, as the room calls it: in the chat's files or in a mount.
func (c Sandboxed) place() (string, error) {
	at := c.Dir
	if !path.IsAbs(at) {
		at = path.Join(roomDir, at)
	}
	at = path.Clean(at)
	inside := within(at, roomDir) || slices.ContainsFunc(c.Mounts, func(m Mount) bool { return within(at, m.Path) })
	if !inside {
		return "", fmt.Errorf("%w: the directory %q is neither in the chat's files nor in a directory that was opened "+
			"to programs", corebot.ErrInvalid, c.Dir)
	}
	return at, nil
}

func (r *Runner) runSandboxed(ctx context.Context, c Sandboxed) (Ended, error) {
	at, err := c.place()
	if err != nil {
		return Ended{}, err
	}
	if err := r.CanSandbox(ctx); err != nil {
		return Ended{}, err
	}
	req := &request{
		Role: becomeProgram, Mode: Room, Sandbox: true, Program: r.sandboxPath(), Argv: c.Argv, At: at,
		Mounts: outerFirst(c.Mounts), Readable: r.opts.Readable, UID: r.uid,
		Network: c.Network != nil, serve: c.Network,
		Limits: limits{
			CPU: c.Timeout * time.Duration(runtime.NumCPU()), Processes: maxSandboxProcesses, Data: maxData,
			Files: maxSandboxFiles,
		},
	}
	if req.Dir, err = r.directory(c.Key); err == nil {
		req.Home, err = r.home(c.Key)
	}
	if err != nil {
		return Ended{}, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	tmp, err := r.makeTemp()
	if err != nil {
		return Ended{}, fmt.Errorf("%w: %w", ErrWorker, err)
	}
	defer tmp.remove()
	req.Tmp = tmp.path
	req.Env = r.sandboxEnv(req)
	for _, m := range req.Mounts {
		if !m.Owned {
			continue
		}
		if tree, err := ownedMount(cmp.Or(m.From, m.Path), r.uid, m.Write); err == nil {
			defer tree.Close() //nolint:errcheck // the worker has its own
			req.trees = append(req.trees, ownedTree{m.Path, tree})
		}
	}
	return r.executeWatched(ctx, req, c)
}

// CanOwn says why programs that are a user cannot do in a directory what its owner may; nil: they can. The kernel has
// the user stand for the owner in that directory alone. Only root can ask for that, and not every file system does it.
func CanOwn(dir string, uid int) error {
	tree, err := ownedMount(dir, uid, false)
	if err != nil {
		return err
	}
	return tree.Close()
}

// ownedTree is a copy of a mount in which the user of programs stands for the owner.
type ownedTree struct {
	path string
	tree *os.File
}

// diskEvery is how often a sandbox's disk is looked at.
const diskEvery = time.Second

var errDiskFull = errors.New("the disk is full")

// executeWatched runs a request, and kills it where the disk has no room left.
func (r *Runner) executeWatched(ctx context.Context, req *request, c Sandboxed) (Ended, error) {
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if c.Full != nil {
		go func() {
			for tick := time.NewTicker(diskEvery); ; {
				select {
				case <-tick.C:
					if c.Full() {
						stop(errDiskFull)
					}
				case <-watched.Done():
					tick.Stop()
					return
				}
			}
		}()
	}
	end, err := r.execute(watched, req, c.Output)
	if errors.Is(context.Cause(watched), errDiskFull) {
		end.TimedOut, end.DiskFull = false, true
	}
	return end, err
}

// CanSandbox says why there is no sandbox on this machine; nil: there is one.
func (r *Runner) CanSandbox(ctx context.Context) error {
	walls, err := r.Inspect(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoSandbox, err)
	}
	if walls.Mode != Room {
		return corebot.WithHint(fmt.Errorf("%w: %s", ErrNoSandbox, walls.NoRoom),
			"let Corebot make user, mount, PID and network namespaces, or set tools.shell.mode to host")
	}
	return nil
}

// outerFirst sorts mounts so that a directory within another one lies over it.
func outerFirst(mounts []Mount) []Mount {
	ordered := slices.Clone(mounts)
	sorted.By(ordered, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return ordered
}

// sandboxPath is where names of programs are looked up: the usual places, and those of Corebot's own PATH that the room
// has.
func (r *Runner) sandboxPath() string {
	dirs := strings.Split(searchPath, ":")
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) && !strings.Contains(dir, ":") &&
			containsAny(append(systemDirs(), r.opts.Readable...), filepath.Clean(dir)) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// sandboxEnv is what a program in a sandbox sees of an environment. With a network every usual name leads to the proxy;
// a program that does not follow them reaches nothing.
func (r *Runner) sandboxEnv(req *request) []string {
	env := fixedEnv(roomHome, roomTmp)
	env[0] = "PATH=" + req.Program
	env = append(env, "TERM=dumb")
	if req.Network {
		proxy := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
			env = append(env, name+"="+proxy, strings.ToLower(name)+"="+proxy)
		}
		env = append(env, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1",
			"NODE_USE_ENV_PROXY=1")
	}
	for _, name := range r.opts.Env {
		fixed := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		if value, ok := os.LookupEnv(name); ok && !fixed {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// home makes the directory that the programs of a chat have as their home: their caches and settings. It is no part of
// the chat's files, and one that has grown over its limits is emptied.
func (r *Runner) home(k corebot.Key) (string, error) {
	if r.opts.Homes == "" {
		return "", errors.New("there is no place for the homes of programs")
	}
	if err := os.MkdirAll(r.opts.Homes, 0o700); err != nil {
		return "", err
	}
	homes, err := os.OpenRoot(r.opts.Homes)
	if err != nil {
		return "", err
	}
	defer homes.Close() //nolint:errcheck // only a handle
	name := filepath.Base(rootfs.ChatDir(k))
	if r.homeOver(homes, name) {
		if err := homes.RemoveAll(name); err != nil {
			return "", fmt.Errorf("empty the home of programs: %w", err)
		}
	}
	if err := homes.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := homes.Lstat(name)
	if err != nil || !info.IsDir() {
		return "", errors.Join(fmt.Errorf("the home of programs %s is not a directory", name), err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); r.uid != 0 && (!ok || int(stat.Uid) != r.uid) {
		if err := homes.Lchown(name, r.uid, r.uid); err != nil {
			return "", err
		}
	}
	real, err := filepath.EvalSymlinks(r.opts.Homes)
	return filepath.Join(real, name), err
}

// homeOver says whether a home has more than it may.
func (r *Runner) homeOver(homes *os.Root, name string) bool {
	entries, size := 0, int64(0)
	over := errors.New("over")
	err := fs.WalkDir(homes.FS(), name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a program removes files meanwhile
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		if entries++; entries > maxHomeEntries || size > maxHomeBytes {
			return over
		}
		return nil
	})
	return errors.Is(err, over)
}
