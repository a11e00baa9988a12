package isolation

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
)

// searchPath is where the names of entries are looked up, and the PATH of every program.
const searchPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// unsafeMark before an entry says that its program may execute others.
const unsafeMark = "unsafe:"

// program is an entry of the allowlist, resolved.
type program struct {
	path        string    // without symbolic links
	interpreter string    // the dynamic loader that the kernel starts it with, if it wants one
	family      bool      // it may execute other programs of the system
	profiles    []profile // of which its arguments must match one; none: they may be anything
}

// allowlist is what may run, by the first argument that asks for it.
type allowlist map[string]program

// newAllowlist resolves the entries of tools.shell.allow. closed are directories from which nothing may be executed.
func newAllowlist(entries, closed []string) (allowlist, error) {
	list := allowlist{}
	for _, entry := range entries {
		words := strings.Split(strings.TrimPrefix(entry, unsafeMark), " ")
		name := words[0]
		p, err := resolve(name, closed)
		var args profile
		if err == nil {
			args, err = parseProfile(words[1:])
		}
		if err != nil {
			return nil, corebot.WithHint(fmt.Errorf("tools.shell.allow: %q: %w", entry, err),
				cmp.Or(corebot.HintOf(err),
					"an entry is the name of a program in "+searchPath+
						", or an absolute path; behind it, if you like, what its arguments must be"))
		}
		if p.family = strings.HasPrefix(entry, unsafeMark); !p.family {
			err := p.mustBeAlone(name)
			if err == nil && len(args) == 0 && runsByOption(name, p.path) {
				return nil, corebot.WithHint(fmt.Errorf("tools.shell.allow: %q: options can make it run other "+
					"programs or code", entry),
					fmt.Sprintf("say behind it what its arguments must be, such as %q, or write it as %q", entry+" **",
						unsafeMark+entry))
			}
			if err != nil {
				return nil, corebot.WithHint(fmt.Errorf("tools.shell.allow: %q: %w", entry, err),
					fmt.Sprintf(
						"if you mean it, write it as %q: the program may then start any other program of the system",
						unsafeMark+entry))
			}
		}
		if p.profiles, err = list[name].with(args, p.family); err != nil {
			return nil, corebot.WithHint(fmt.Errorf("tools.shell.allow: %q: %w", entry, err),
				"keep one of them; several for one program all have arguments")
		}
		list[name] = p
	}
	return list, nil
}

// with is the profiles of a program and one more, which is empty if its entry has no arguments. The zero program has no
// entry yet.
func (p program) with(more profile, family bool) ([]profile, error) {
	switch {
	case p.path == "" && len(more) == 0:
		return nil, nil
	case p.path != "" && (len(p.profiles) == 0 || len(more) == 0 || p.family != family):
		return nil, errors.New("there is another entry for this program, which means something else")
	}
	return append(p.profiles, more), nil
}

// find gives the program that a command may run.
func (l allowlist) find(argv []string) (program, error) {
	if err := checkArgv(argv); err != nil {
		return program{}, err
	}
	p, ok := l[argv[0]]
	if !ok {
		return program{}, fmt.Errorf("%q %w", argv[0], ErrNotAllowed)
	}
	if len(p.profiles) > 0 && !slices.ContainsFunc(p.profiles,
		func(allowed profile) bool { return allowed.allows(argv[1:]) }) {
		return program{}, fmt.Errorf("%q with these arguments %w", argv[0], ErrNotAllowed)
	}
	return p, nil
}

// entries are what may run, as the operator wrote it but for the marks, sorted.
func (l allowlist) entries() (all []string) {
	for name, p := range l {
		if len(p.profiles) == 0 {
			all = append(all, name)
		}
		for _, args := range p.profiles {
			all = append(all, name+" "+args.String())
		}
	}
	return slices.Sorted(slices.Values(all))
}

func resolve(name string, closed []string) (program, error) {
	path, err := lookUp(name)
	if err != nil {
		return program{}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return program{}, err
	}
	for _, dir := range closed {
		if within(real, dir) {
			return program{}, fmt.Errorf("%s is in %s, which tools may write", real, dir)
		}
	}
	if real, err = owned.Resolve(path); err != nil {
		return program{}, err
	}
	info, err := os.Stat(real)
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0) {
		err = fmt.Errorf("%s is not an executable file", real)
	}
	return program{path: real}, err
}

// lookUp finds a name on the search path.
func lookUp(name string) (string, error) {
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("it has a control character")
	case filepath.IsAbs(name) && filepath.Clean(name) == name:
		return name, nil
	case name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/'):
		return "", errors.New("it is neither a name nor a clean absolute path")
	}
	for dir := range strings.SplitSeq(searchPath, ":") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() &&
			info.Mode().Perm()&0o111 != 0 {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("no such program in %s", searchPath)
}

// within says whether a clean absolute path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// containsAny says whether a path is one of the directories or below one.
func containsAny(dirs []string, path string) bool {
	for _, dir := range dirs {
		if within(path, dir) {
			return true
		}
	}
	return false
}

// mustBeAlone holds for an entry without a mark: a native program that is not known for running others. The loader is
// the one thing that it must be let execute beside itself.
func (p *program) mustBeAlone(name string) error {
	if isWrapper(name, p.path) {
		return errors.New("it is known to run other programs or code")
	}
	return p.findLoader()
}

// findLoader learns which dynamic loader the kernel starts a native program with.
func (p *program) findLoader() error {
	f, err := elf.Open(p.path)
	if format := (*elf.FormatError)(nil); errors.As(err, &format) || errors.Is(err, io.EOF) {
		return errors.New("it is a script, which needs another program to run it")
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(segment.Open(), 4096))
		if err != nil {
			return fmt.Errorf("read the loader of %s: %w", p.path, err)
		}
		p.interpreter, err = filepath.EvalSymlinks(strings.TrimRight(string(text), "\x00"))
		return err
	}
	return nil
}

// wrappers are programs whose arguments can make them run other programs or code, or open a shell. The kernel refuses
// that to an entry without a mark. Without the mark, a listed wrapper would only be a promise that does not hold, so
// the operator has to write the mark.
func wrappers() []string {
	return []string{
		// run a command that is an argument
		"env", "xargs", "find", "fd", "fdfind", "parallel", "nice", "ionice", "nohup", "timeout", "time", "stdbuf",
		"setsid", "watch", "entr", "taskset",
		"chrt", "prlimit", "setpriv", "unshare", "nsenter", "chroot", "flock", "strace", "ltrace", "gdb", "lldb",
		"valgrind", "perf", "script",
		"expect", "dbus-run-session", "systemd-run", "run-parts", "start-stop-daemon", "capsh", "bwrap", "firejail",
		"at", "batch", "crontab",
		"sudo", "doas", "su", "runuser", "pkexec", "newgrp", "sg", "ssh", "scp", "sftp", "rsync", "socat", "nc", "ncat",
		"netcat", "telnet",
		"setarch", "linux32", "linux64", "i386", "x86_64", "uname26", "choom", "runcon", "uclampset", "ssh-agent",
		"gpg-agent", "switch_root", "pivot_root",
		"agetty", "getty", "login", "ip", "systemctl", "journalctl", "mount", "umount", "dbus-launch", "xvfb-run",
		"faketime", "fakeroot", "eatmydata",
		"docker", "podman", "kubectl", "nerdctl", "ctr", "runc", "crun", "lxc", "screen", "tmux",
		// shells and interpreters
		"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh", "busybox", "toybox",
		"awk", "gawk", "mawk", "nawk", "original-awk", "sed", "gsed", "ed", "red", "m4", "perl", "python", "pypy",
		"ruby",
		"irb", "node", "nodejs", "deno", "bun", "npm", "npx", "yarn", "pnpm", "php", "lua", "luajit", "tclsh", "wish",
		"guile", "java",
		"jshell", "jrunscript", "scala", "groovy", "erl", "elixir", "iex", "julia", "octave", "gnuplot", "ocaml", "ghc",
		"ghci", "raku",
		"sqlite3", "psql", "mysql", "mariadb", "mongosh", "redis-cli",
		// build, package and version tools, whose files hold commands
		"make", "gmake", "cmake", "ninja", "meson", "bazel", "go", "cargo", "rustc", "gcc", "cc", "g++", "c++", "clang",
		"tcc", "mvn", "gradle", "ant", "pip",
		"pipx", "uv", "poetry", "gem", "bundle", "rake", "composer", "apt", "apt-get", "dpkg", "rpm", "yum", "dnf",
		"apk", "pacman", "snap", "flatpak",
		"git", "hg", "svn", "bzr", "cvs", "gh", "ansible", "ansible-playbook", "terraform", "puppet",
		// pagers, editors and others with a way out
		"less", "more", "most", "man", "vi", "vim", "vimdiff", "view", "nvim", "ex", "rvim", "nano", "pico", "emacs",
		"joe", "mc", "ranger", "tar", "bsdtar",
		"tcpdump", "nmap", "ftp", "dc", "fzf", "rg", "lftp", "mail", "mutt", "logrotate",
		"ld", "ld.so", "latex", "tex", "pdflatex", "xetex", "luatex",
	}
}

// optional are programs that run another, or load code, if an option says so. With an entry that says what their
// arguments must be they are like any other.
func optional() []string {
	return []string{
		"install", "ginstall", "sort", "split", "zip", "cpio", "pax", "diff3", "sdiff", "patch", "wget", "bat",
		"batcat", "openssl", "gpg", "gpg2",
		"pandoc", "convert", "magick", "mogrify", "identify", "gs", "ar", "nm", "objdump", "objcopy", "strip", "ffmpeg",
	}
}

// multicalls are one program under many names: which one it is, its first argument says, and that is the entry.
func multicalls() []string { return []string{"busybox", "toybox", "coreutils"} }

// isWrapper looks at the entry's own name and at the program that it stands for. Versions do not hide one: python3.13
// is python.
func isWrapper(entry, resolved string) bool {
	name, target := stem(filepath.Base(entry)), filepath.Base(resolved)
	known := wrappers()
	if slices.Contains(known, name) {
		return true
	}
	return !slices.Contains(multicalls(), target) && slices.Contains(known, stem(target))
}

// runsByOption is [isWrapper] for programs that run others only if an option says so.
func runsByOption(entry, resolved string) bool {
	return slices.ContainsFunc([]string{entry, resolved}, func(path string) bool {
		name := strings.ToLower(filepath.Base(path))
		if _, tool, cross := strings.Cut(name, "-linux-gnu-"); cross {
			name = tool
		}
		return slices.Contains(optional(), name)
	})
}

// stem is a program's name without version and variant: "vim.basic" is vim, "python3.13" python, "gcc-14" gcc.
func stem(name string) string {
	name = strings.ToLower(name)
	if _, tool, cross := strings.Cut(name, "-linux-gnu-"); cross { // x86_64-linux-gnu-gcc-12
		name = tool
	}
	if slices.Contains(wrappers(), name) {
		return name
	}
	if head, _, cut := strings.Cut(name, "."); cut && head != "" && !strings.HasPrefix(name, "ld") {
		name = head
	}
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld.so") {
		return "ld"
	}
	return strings.TrimRight(name, "0123456789-.")
}
