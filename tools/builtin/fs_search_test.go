package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// found is what a search answers.
func (b bench) found(a args) string {
	b.Helper()
	r := b.call(corebot.RoleNormal, here, "fs.search", a)
	if r.Outcome != corebot.OutcomeSuccess {
		b.Fatalf("search %v: %+v", a, r)
	}
	return r.Content
}

func TestASearchFindsLinesByPathNumberAndText(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("src/b.go", []byte("package b\n\nfunc Second() {}\r\n")))
	must(t, b.root.Write("src/a.go", []byte("func First() {}\nvar x int\n")))
	must(t, b.root.Write("src/deep/c.txt", []byte("a func in words")))
	for name, c := range map[string]struct {
		args args
		want []string
	}{
		"all below, in the order of paths": {
			args{"pattern": `func \w+`},
			[]string{
				"src/a.go:1: func First() {}", "src/b.go:3: func Second() {}",
				"src/deep/c.txt:1: a func in words",
			},
		},
		"by name": {
			args{"pattern": "func", "name": "*.go", "path": "src"},
			[]string{"src/a.go:1: func First() {}", "src/b.go:3: func Second() {}"},
		},
		"one file":         {args{"pattern": "(?i)VAR", "path": "src/a.go"}, []string{"src/a.go:2: var x int"}},
		"ends of a line":   {args{"pattern": `\{\}$`, "path": "src/b.go"}, []string{"src/b.go:3: func Second() {}"}},
		"nothing":          {args{"pattern": "none", "path": "src"}, []string{"[nothing in src matches]"}},
		"another spelling": {args{"pattern": "First", "path": "./src//"}, []string{"src/a.go:1: func First() {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(b.found(c.args)) {
				got = append(got, strings.TrimSuffix(line, "\n"))
			}
			if strings.Join(got, "|") != strings.Join(c.want, "|") {
				t.Errorf("it finds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestASearchPassesOverWhatIsClosedOrNoText(t *testing.T) {
	b := newBench(t)
	for path, text := range map[string]string{
		rootfs.ChatDir(there) + "/x.md": "needle", rootfs.ChatDir(here) + "/y.md": "needle", ".git/config": "needle",
		"lib/node_modules/m.js":                   "needle",
		rootfs.ScopedSkills(here) + "/x/SKILL.md": "needle", rootfs.ScopedSkills(there) + "/x/SKILL.md": "needle",
		"binary": "needle\x00", "latin": "needle \xff\xfe", "plain.md": "needle",
	} {
		must(t, b.root.Write(path, []byte(text)))
	}
	must(t, os.Symlink("plain.md", b.dir+"/link.md"))
	if got, want := b.found(args{"pattern": "needle"}),
		"plain.md:1: needle\n[binary files that were left out: 2]\n"; got != want {
		t.Errorf("it finds\n%s\nwant\n%s", got, want)
	}
	own := rootfs.ChatDir(here)
	if got := b.found(args{"pattern": "needle", "path": own}); got != own+"/y.md:1: needle\n" {
		t.Errorf("in its own directory the chat finds %s", got)
	}
}

func TestASearchEndsAtItsLimitsAndSaysSo(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("many.txt", []byte(strings.Repeat("a needle\n", 300))))
	got := b.found(args{"pattern": "needle", "path": "many.txt"})
	if n := strings.Count(got, "many.txt:"); n != 200 || !strings.Contains(got, "its limit of 200 matches") {
		t.Errorf("%d matches are shown:\n%s", n, got)
	}
	must(t, b.root.Write("wide.txt", []byte(strings.Repeat("ä", 5000)+"needle"+strings.Repeat("ö", 5000))))
	got = b.found(args{"pattern": "needle", "path": "wide.txt"})
	if !strings.Contains(got, "äneedleö") || !strings.Contains(got, "wide.txt:1: …ä") || len(got) > 300 {
		t.Errorf("a long line is shown as %s", got)
	}
	must(t, b.root.Write("long.txt", []byte(strings.Repeat("hay\n", 1<<18)+"needle\n")))
	got = b.found(args{"pattern": "needle", "path": "long.txt"})
	if want := "[nothing in long.txt matches]\n[files of which only the first MiB was searched: 1]\n"; got != want {
		t.Errorf("of a long file it says\n%s", got)
	}
}

func TestASearchThatCannotBeMadeSaysWhy(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ pattern, name, path, want string }{
		{"(", "", "", "missing closing )"},
		{strings.Repeat("a", 1001), "", "", "the limit is 1000"},
		{"a", "[", "", "syntax error in pattern"},
		{"a", "", "none", "no such file"},
	} {
		r := b.call(corebot.RoleNormal, here, "fs.search", args{"pattern": c.pattern, "name": c.name, "path": c.path})
		if r.Outcome != corebot.OutcomeError || !strings.Contains(r.Content, c.want) {
			t.Errorf("%.20q, %q, %q: %+v", c.pattern, c.name, c.path, r)
		}
	}
}

func TestASearchThatIsStoppedIsNoAnswer(t *testing.T) {
	b := newBench(t)
	for n := range 50 {
		must(t, b.root.Write(fmt.Sprintf("f%d", n), []byte("needle")))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(corebot.ErrStopped)
	raw, err := json.Marshal(args{"pattern": "needle"})
	must(t, err)
	r, err := b.box[corebot.RoleNormal].Call(ctx, corebot.Caller{Key: here}, corebot.ToolCall{
		Tool: "fs.search",
		Args: raw,
	},
		step{})
	if err == nil && r.Outcome == corebot.OutcomeSuccess || err != nil && !errors.Is(err, corebot.ErrStopped) {
		t.Errorf("it says %+v, %v", r, err)
	}
}

func TestADirectoryIsMadeOnceWithThoseAboveIt(t *testing.T) {
	b := newBench(t)
	for range 2 {
		b.wants(corebot.OutcomeSuccess, "there is a directory a/b/c", "fs.mkdir", args{"path": "a/b/c"})
		if info, err := os.Stat(b.dir + "/a/b/c"); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			t.Errorf("there is %v, %v", info, err)
		}
	}
	must(t, b.root.Write("file", []byte("x")))
	b.wants(corebot.OutcomeError, "is not a directory", "fs.mkdir", args{"path": "file"})
	b.wants(corebot.OutcomeError, "is not a directory", "fs.mkdir", args{"path": "file/below"})
	must(t, os.Symlink(t.TempDir(), b.dir+"/out"))
	b.wants(corebot.OutcomeError, "symbolic link", "fs.mkdir", args{"path": "out/made"})
}

func TestASearchBoundsFilesDirectoriesBytesAndTime(t *testing.T) {
	b := newBench(t)
	const most = 1 << 20
	for n := range 10 {
		must(t, b.root.Mkdir(fmt.Sprintf("empty/%d", n)))
		must(t, b.root.Write(fmt.Sprintf("full/%d", n), []byte("a needle in a file of thirty bytes")))
	}
	for n := range 15 {
		must(t, b.root.Write(fmt.Sprintf("tree/%d/%d", n/3, n), []byte("a needle")))
	}
	for name, c := range map[string]struct {
		path, want string
		tool       tools.Tool
	}{
		"files": {"full", "5 files and directories", builtin.SearchWithin(roots.Only(b.root), 5, most,
			time.Minute)},
		"directories": {"empty", "5 files and directories", builtin.SearchWithin(roots.Only(b.root), 5, most,
			time.Minute)},
		"a tree": {"tree", "8 files and directories", builtin.SearchWithin(roots.Only(b.root), 8, most,
			time.Minute)},
		"bytes": {"full", "limit of 100 bytes", builtin.SearchWithin(roots.Only(b.root), 1000, 100, time.Minute)},
		"time":  {"full", "limit of 1ns", builtin.SearchWithin(roots.Only(b.root), 1000, most, 1)},
		"none": {"full", "full/9:1: a needle", builtin.SearchWithin(roots.Only(b.root), 1000, most,
			time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			registry, err := tools.NewRegistry(c.tool)
			must(t, err)
			p, err := policy.New(policy.Options{})
			must(t, err)
			box, err := tools.NewBox(registry, p, roleOf(corebot.RoleNormal), tools.Options{})
			must(t, err)
			one := bench{t, b.dir, b.root, map[corebot.Role]*tools.Box{corebot.RoleNormal: box}}
			got := one.found(args{"pattern": "needle", "path": c.path})
			if !strings.Contains(got, c.want) || name != "none" && (strings.Contains(got, "full/9") ||
				strings.Contains(got, "tree/4")) {
				t.Errorf("it says\n%s", got)
			}
		})
	}
}
