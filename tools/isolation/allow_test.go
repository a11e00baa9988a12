//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAnEntryIsAProgramThatNobodyElseCanChange(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, copyFile("/usr/bin/true", path))
		must(t, os.Chmod(path, mode))
		return path
	}
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o755))
	// below a directory that only its owner searches all rights would be fine
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	script := filepath.Join(dir, "runme")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	inOpen := file("open/tool", 0o755)
	must(t, os.Chmod(open, 0o777))
	inWorkspace := filepath.Join(dir, "workspace", "tool")
	must(t, os.Mkdir(filepath.Dir(inWorkspace), 0o755))
	file("workspace/tool", 0o755)
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(inWorkspace, link))
	for _, c := range []struct{ entry, want string }{
		{"echo", ""},
		{"/usr/bin/../bin/echo", "clean absolute path"},
		{"/usr//bin/echo", "clean absolute path"},
		{file("good", 0o755), ""},
		{"no-such-program", "no such program"},
		{"bin/echo", "neither a name"},
		{"..", "neither a name"},
		{"", "neither a name"},
		{"unsafe:", "neither a name"},
		{"echo\n", "control character"},
		{"/usr/bin", "not an executable file"},
		{"/usr/bin/none", "no such file"},
		{file("plain", 0o644), "not an executable file"},
		{file("group", 0o775), "can be written"},
		{file("world", 0o757), "can be written"},
		{inOpen, "can be written by everyone"},
		{inWorkspace, "which tools may write"},
		{"unsafe:" + inWorkspace, "which tools may write"},
		{link, "which tools may write"},
		{script, "it is a script"},
		{"unsafe:" + script, ""},
		{"git", "known to run other programs"},
		{"install", "options can make it run other programs"},
		{"sort", "options can make it run other programs"},
		{"sort -n **", ""},
		{"split", "options can make it run other programs"},
		{"unsafe:install", ""},
		{"unsafe:git", ""},
		{"sh", "known to run other programs"},
		{"/bin/sh", "known to run other programs"},
		{"unsafe:/bin/sh", ""},
	} {
		_, err := newAllowlist([]string{c.entry}, []string{filepath.Dir(inWorkspace)})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.entry, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "tools.shell.allow") || corebot.HintOf(err) == ""):
			t.Errorf("%q: got %v (%s), want %q", c.entry, err, corebot.HintOf(err), c.want)
		}
	}
	if _, err := newAllowlist([]string{"echo", "unsafe:echo"}, nil); err == nil {
		t.Error("one name has two meanings")
	}
}

func TestARunningProgramIsToldFromOneThatRunsOthers(t *testing.T) {
	for _, c := range []struct {
		entry, resolved string
		want            bool
	}{
		{"ls", "/usr/bin/ls", false},
		{"ls", "/bin/busybox", false},
		{"sh", "/bin/busybox", true},
		{"busybox", "/bin/busybox", true},
		{"python3", "/usr/bin/python3.13", true},
		{"/opt/py", "/usr/bin/python3.13", true},
		{"awk", "/usr/bin/mawk", true},
		{"editor", "/usr/bin/vim.basic", true},
		{"gcc-14", "/usr/bin/x86_64-linux-gnu-gcc-14", true},
		{"g++", "/usr/bin/g++-14", true},
		{"/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", true},
		{"ENV", "/usr/bin/ENV", true},
		{"linux64", "/usr/bin/setarch", true},
		{"cc", "/usr/bin/x86_64-linux-gnu-gcc-12", true},
		{"strip", "/usr/bin/x86_64-linux-gnu-strip", false},
		{"sha256sum", "/usr/bin/sha256sum", false},
		{"base64", "/usr/bin/base64", false},
	} {
		if got := isWrapper(c.entry, c.resolved); got != c.want {
			t.Errorf("%s, %s: got %v", c.entry, c.resolved, got)
		}
	}
}

func TestWhatMustStayClosedCannotBeReadable(t *testing.T) {
	home := t.TempDir()
	workspace := filepath.Join(home, "workspace")
	tool := filepath.Join(t.TempDir(), "tool")
	keys := filepath.Join(home, "keys")
	must(t, errors.Join(os.Mkdir(workspace, 0o700), os.Mkdir(keys, 0o700), os.Mkdir(tool, 0o755),
		os.Symlink(home, filepath.Join(tool, "link"))))
	for dir, ok := range map[string]bool{
		tool: true, home: false, filepath.Dir(home): false, workspace: false, keys: false, "/": false,
		"relative": false, tool + "/none": false, tool + "/link": false,
	} {
		r, err := New(workspace, Options{Readable: []string{dir}, Closed: []string{home}})
		if (err == nil) != ok || err != nil && corebot.HintOf(err) == "" {
			t.Errorf("%s: %v (%s)", dir, err, corebot.HintOf(err))
		}
		if err == nil {
			must(t, r.Close())
		}
	}
	if _, err := New(workspace, Options{Closed: []string{"/usr/local"}}); err == nil {
		t.Error("a home among the system's programs was taken")
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"uid": {UID: -1}, "workers": {MaxWorkers: -1}, "output": {MaxOutput: -1},
		"a fixed variable": {Env: []string{"PATH"}}, "no name": {Env: []string{"A=B"}},
		"a setting": {Env: []string{"COREBOT_WEBHOOK_TOKEN"}},
	} {
		if _, err := New(t.TempDir(), o); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := New(filepath.Join(t.TempDir(), "none"), Options{}); err == nil {
		t.Error("a workspace that does not exist was taken")
	}
}

// FuzzNoArgumentsLeadPastTheAllowlist: whatever is asked for, either an entry of the list is found, under its very
// name, or nothing.
func FuzzNoArgumentsLeadPastTheAllowlist(f *testing.F) {
	list, err := newAllowlist([]string{"echo", "/usr/bin/id", "unsafe:sh"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"echo\x01hi", "/usr/bin/../bin/id", "unsafe:sh", "sh", "ECHO", "echo ", " echo",
		"\x01echo", "", "echo\x01\x00", "./echo", "/usr/bin/id\x01-u",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x01")
		p, err := list.find(argv)
		if err != nil {
			if p.path != "" {
				t.Fatalf("%q: %+v with %v", argv, p, err)
			}
			return
		}
		want, listed := map[string]bool{"echo": false, "/usr/bin/id": false, "sh": true}[argv[0]]
		if !listed || p.family != want || !filepath.IsAbs(p.path) || strings.ContainsRune(line, 0) ||
			len(argv) > maxArgs || len(line) > maxArgBytes {
			t.Fatalf("%q gives %+v", argv, p)
		}
	})
}

// FuzzAnEntryIsRefusedOrIsWhatItSays: no text as an entry crashes the start, and one without a mark never stands for a
// shell.
func FuzzAnEntryIsRefusedOrIsWhatItSays(f *testing.F) {
	for _, seed := range []string{
		"echo", "unsafe:sh", "/bin/sh", "/dev/null", "/proc/self/exe", "..", "a/b", "\x00",
		"unsafe:unsafe:sh", "echo -n *", "echo  x", "echo ** x", "unsafe:git log **",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		list, err := newAllowlist([]string{entry}, nil)
		for name, p := range list {
			want, args, _ := strings.Cut(strings.TrimPrefix(entry, unsafeMark), " ")
			if err != nil || name != want || p.family != strings.HasPrefix(entry, unsafeMark) || !p.family &&
				isWrapper(name, p.path) || (args == "") != (len(p.profiles) == 0) {
				t.Fatalf("%q gives %q: %+v, %v", entry, name, p, err)
			}
		}
	})
}
