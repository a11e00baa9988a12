package isolation

import (
	"path/filepath"
	"slices"
	"strings"
)

// wrappers are programs whose arguments can make them run other programs or code, or open a shell. The kernel refuses that to an entry
// without a mark; listing one all the same would only be a promise that does not hold, so it has to be said.
func wrappers() []string {
	return []string{
		// run a command that is an argument
		"env", "xargs", "find", "fd", "fdfind", "parallel", "nice", "ionice", "nohup", "timeout", "time", "stdbuf", "setsid", "watch", "entr", "taskset",
		"chrt", "prlimit", "setpriv", "unshare", "nsenter", "chroot", "flock", "strace", "ltrace", "gdb", "lldb", "valgrind", "perf", "script",
		"expect", "dbus-run-session", "systemd-run", "run-parts", "start-stop-daemon", "capsh", "bwrap", "firejail", "at", "batch", "crontab",
		"sudo", "doas", "su", "runuser", "pkexec", "newgrp", "sg", "ssh", "scp", "sftp", "rsync", "socat", "nc", "ncat", "netcat", "telnet",
		"setarch", "linux32", "linux64", "i386", "x86_64", "uname26", "choom", "runcon", "uclampset", "ssh-agent", "gpg-agent", "switch_root", "pivot_root",
		"agetty", "getty", "login", "ip", "systemctl", "journalctl", "mount", "umount", "dbus-launch", "xvfb-run", "faketime", "fakeroot", "eatmydata",
		"docker", "podman", "kubectl", "nerdctl", "ctr", "runc", "crun", "lxc", "screen", "tmux",
		// shells and interpreters
		"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "pwsh", "busybox", "toybox",
		"awk", "gawk", "mawk", "nawk", "original-awk", "sed", "gsed", "ed", "red", "m4", "perl", "python", "pypy", "ruby",
		"irb", "node", "nodejs", "deno", "bun", "npm", "npx", "yarn", "pnpm", "php", "lua", "luajit", "tclsh", "wish", "guile", "java",
		"jshell", "jrunscript", "scala", "groovy", "erl", "elixir", "iex", "julia", "octave", "gnuplot", "ocaml", "ghc", "ghci", "raku",
		"sqlite3", "psql", "mysql", "mariadb", "mongosh", "redis-cli",
		// build, package and version tools, whose files hold commands
		"make", "gmake", "cmake", "ninja", "meson", "bazel", "go", "cargo", "rustc", "gcc", "cc", "g++", "c++", "clang", "tcc", "mvn", "gradle", "ant", "pip",
		"pipx", "uv", "poetry", "gem", "bundle", "rake", "composer", "apt", "apt-get", "dpkg", "rpm", "yum", "dnf", "apk", "pacman", "snap", "flatpak",
		"git", "hg", "svn", "bzr", "cvs", "gh", "ansible", "ansible-playbook", "terraform", "puppet",
		// pagers, editors and others with a way out
		"less", "more", "most", "man", "vi", "vim", "vimdiff", "view", "nvim", "ex", "rvim", "nano", "pico", "emacs", "joe", "mc", "ranger", "tar", "bsdtar",
		"tcpdump", "nmap", "ftp", "dc", "fzf", "rg", "lftp", "mail", "mutt", "logrotate",
		"ld", "ld.so", "latex", "tex", "pdflatex", "xetex", "luatex",
	}
}

// optional are programs that run another, or load code, if an option says so. With an entry that says what their arguments must be they
// are like any other.
func optional() []string {
	return []string{
		"install", "ginstall", "sort", "split", "zip", "cpio", "pax", "diff3", "sdiff", "patch", "wget", "bat", "batcat", "openssl", "gpg", "gpg2",
		"pandoc", "convert", "magick", "mogrify", "identify", "gs", "ar", "nm", "objdump", "objcopy", "strip", "ffmpeg",
	}
}

// multicalls are one program under many names: which one it is, its first argument says, and that is the entry.
func multicalls() []string { return []string{"busybox", "toybox", "coreutils"} }

// isWrapper looks at the entry's own name and at the program that it stands for. Versions do not hide one: python3.13 is python.
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
