package roots_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes directories and files below a new directory, and gives its real path. A name that ends in "/" is a
// directory.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(name), 0o644))
	}
	return dir
}

func TestAnArgumentMeansAFileOfTheWorkspaceOrOfTheInnermostOpenDirectory(t *testing.T) {
	dir := tree(t, "docs/inner/", "project/")
	must(t, os.Symlink(dir+"/project", dir+"/link"))
	list, err := roots.NewList(dir, []roots.Dir{
		{Path: "~/docs"},
		{Path: dir + "/docs/inner/", Write: true},
		{Path: dir + "/link", Write: true},
		{Path: dir + "/missing"},
	})
	must(t, err)
	for arg, want := range map[string]string{
		"a/./b": "a/b", ".": ".", "~x/y": "~x/y",
		"~/docs": "/docs", "~/docs/a//b": "/docs/a/b", dir + "/docs/inner/x": "/docs/inner/x",
		dir + "/docs/innermost": "/docs/innermost", dir + "/link/x": "/link/x", dir + "/project/x": "/link/x",
		dir + "/missing/x": "/missing/x", "//" + dir + "//docs/./": "/docs",
	} {
		p, err := list.Find(arg)
		if spelt := p.String(); err != nil || strings.TrimPrefix(spelt, dir) != want {
			t.Errorf("%s is %s, want %s: %v", arg, spelt, want, err)
		}
	}
	for _, arg := range []string{
		"/", "~", dir, dir + "/doc", dir + "/docsx/a", dir + "/DOCS/a", dir + "/docs/../project/x", "~/../x", "../x",
		"",
		dir + "/docs/a\x00b", "/etc/passwd", dir + "/docs/" + strings.Repeat("a/", rootfs.MaxDepth+1),
	} {
		if p, err := list.Find(arg); err == nil {
			t.Errorf("%q is %s", arg, p)
		}
	}
	if p, _ := list.Find(dir + "/docs/inner/x"); !p.Dir.Write || p.Path != "x" {
		t.Errorf("the innermost directory does not count: %+v", p)
	}
	if _, err := (roots.List{}).Find("~/x"); !errors.Is(err, roots.ErrOutside) {
		t.Errorf("~ without a home: %v", err)
	}
}

func TestADirectoryThatReachesCorebotOrAnotherOneIsRefused(t *testing.T) {
	dir := tree(t, "me/home/data/", "me/home/workspace/", "me/project/sub/", "me/file", "disk/data/", "far/ws/")
	me := dir + "/me"
	must(t, os.Symlink(me+"/home/workspace", me+"/notes"))
	must(t, os.Symlink(me, me+"/project/up"))
	must(t, os.Symlink(dir+"/far/ws", me+"/ws"))
	closed := []string{me + "/home", dir + "/disk/data", me + "/none yet", me + "/ws"}
	for name, c := range map[string]struct {
		dirs []roots.Dir
		says string
	}{
		"the home":                  {[]roots.Dir{{Path: me + "/home"}}, "Corebot's own"},
		"around the home":           {[]roots.Dir{{Path: me}}, "has " + me + "/home in it"},
		"everything":                {[]roots.Dir{{Path: "/"}}, "Corebot's own"},
		"in the home":               {[]roots.Dir{{Path: me + "/home/workspace"}}, "is in " + me + "/home"},
		"a link into it":            {[]roots.Dir{{Path: me + "/notes"}}, "is in " + me + "/home"},
		"a link around it":          {[]roots.Dir{{Path: me + "/project/up"}}, "in it"},
		"the data elsewhere":        {[]roots.Dir{{Path: dir + "/disk"}}, "disk/data in it"},
		"a workspace behind a link": {[]roots.Dir{{Path: dir + "/far"}}, "me/ws in it"},
		"a home to come":            {[]roots.Dir{{Path: me + "/none yet/x"}}, "Corebot's own"},
		"a file":                    {[]roots.Dir{{Path: me + "/file"}}, "not a directory"},
		"relative":                  {[]roots.Dir{{Path: "project"}}, "not an absolute path"},
		"with dots":                 {[]roots.Dir{{Path: me + "/home/../project"}}, "cannot be opened"},
		"the kernel's":              {[]roots.Dir{{Path: "/proc/self"}}, "of the kernel"},
		"twice":                     {[]roots.Dir{{Path: me + "/project"}, {Path: me + "/project/"}}, "one directory"},
		"in one that can be changed": {
			[]roots.Dir{{Path: me + "/project/sub"}, {Path: me + "/project", Write: true}}, "can be changed",
		},
		"nobody's home": {[]roots.Dir{{Path: "~/x"}}, "nobody knows"},
		"too many":      {make([]roots.Dir, roots.Most+1), "the most is"},
	} {
		_, err := roots.NewList("", c.dirs, closed...)
		if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	list, err := roots.NewList("", []roots.Dir{{Path: me + "/project"}, {Path: me + "/project/sub", Write: true}},
		closed...)
	if err != nil || len(list.Dirs()) != 2 {
		t.Errorf("inside one that is for reading: %v", err)
	}
}

func TestADirectoryThatGoesAwayAndComesBackIsTheOneThatIsThere(t *testing.T) {
	dir := tree(t, "project/a", "home/secret")
	list, err := roots.NewList("", []roots.Dir{{Path: dir + "/project", Write: true}}, dir+"/home")
	must(t, err)
	disk := roots.NewDisk(list, dir+"/home")
	t.Cleanup(func() { must(t, disk.Close()) })
	workspace, err := rootfs.New(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, workspace.Close()) })
	reach := roots.NewReach(workspace, disk)
	read := func(path string) (string, error) {
		root, p, err := reach.At(path)
		if err != nil {
			return "", err
		}
		data, err := root.ReadFile(p.Path, 100)
		return string(data), p.Explain(err)
	}
	if got, err := read(dir + "/project/a"); err != nil || got != "project/a" {
		t.Fatalf("%q: %v", got, err)
	}
	must(t, os.Rename(dir+"/project", dir+"/old"))
	if _, err := read(dir + "/project/a"); !errors.Is(err, roots.ErrMissing) || corebot.HintOf(err) == "" {
		t.Errorf("a directory that is gone: %v", err)
	}
	must(t, os.Mkdir(dir+"/project", 0o755))
	must(t, os.WriteFile(dir+"/project/a", []byte("new"), 0o644))
	if got, err := read(dir + "/project/a"); err != nil || got != "new" {
		t.Errorf("the new one: %q: %v", got, err)
	}
	must(t, os.RemoveAll(dir+"/project"))
	must(t, os.Symlink(dir+"/home", dir+"/project"))
	if got, err := read(dir + "/project/secret"); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a link to the home was followed: %q, %v", got, err)
	}
}

func TestLinksOutOfAnOpenDirectoryAndFilesOfTwoNamesAreRefused(t *testing.T) {
	dir := tree(t, "project/sub/", "outside/secret")
	must(t, os.Symlink(dir+"/outside", dir+"/project/out"))
	must(t, os.Symlink(dir+"/outside/secret", dir+"/project/file"))
	must(t, os.Symlink("../sub", dir+"/project/sub/in"))
	must(t, os.Link(dir+"/outside/secret", dir+"/project/second"))
	reach := open(t, roots.Dir{Path: dir + "/project", Write: true})
	for _, name := range []string{"out/secret", "file", "second", "sub/in/x"} {
		root, p, err := reach.Writable(dir + "/project/" + name)
		must(t, err)
		if _, err := root.ReadFile(p.Path, 100); err == nil {
			t.Errorf("%s was read", name)
		}
		if err := root.Write(p.Path, []byte("x")); name != "second" && err == nil {
			t.Errorf("%s was written", name)
		}
		if err := reach.Move(p.String(), "taken", false, func(roots.Look) error { return nil }); err == nil {
			t.Errorf("%s was moved", name)
		}
	}
	if got, err := os.ReadFile(dir + "/outside/secret"); err != nil || string(got) != "outside/secret" {
		t.Errorf("the file outside is %q: %v", got, err)
	}
}

// open is a reach over a new workspace and directories.
func open(t testing.TB, dirs ...roots.Dir) *roots.Reach {
	t.Helper()
	list, err := roots.NewList("", dirs)
	must(t, err)
	workspace, err := rootfs.New(t.TempDir())
	must(t, err)
	disk := roots.NewDisk(list)
	t.Cleanup(func() { must(t, errors.Join(disk.Close(), workspace.Close())) })
	return roots.NewReach(workspace, disk)
}

func TestAFileIsMovedFromOneRootToAnotherAndNeverLost(t *testing.T) {
	dir := tree(t, "a/file", "b/", "c/taken")
	reach := open(t, roots.Dir{Path: dir + "/a", Write: true}, roots.Dir{Path: dir + "/b", Write: true},
		roots.Dir{Path: dir + "/c"})
	agree := func(roots.Look) error { return nil }
	if err := reach.Move(dir+"/a/file", dir+"/c/file", false, agree); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("into a directory for reading: %v", err)
	}
	if err := reach.Move(dir+"/c/taken", dir+"/a/taken", false, agree); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("out of a directory for reading: %v", err)
	}
	must(t, reach.Move(dir+"/a/file", dir+"/b/sub/file", false, agree))
	if data, err := os.ReadFile(dir + "/b/sub/file"); err != nil || string(data) != "a/file" {
		t.Errorf("moved: %q, %v", data, err)
	}
	if _, err := os.Stat(dir + "/a/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still in its place: %v", err)
	}
	must(t, os.WriteFile(dir+"/a/file", []byte("another"), 0o644))
	if err := reach.Move(dir+"/a/file", dir+"/b/sub/file", false, agree); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	refuse := errors.New("no")
	for _, over := range []bool{false, true} {
		err := reach.Move(dir+"/a/file", dir+"/b/sub/file", over, func(roots.Look) error { return refuse })
		if !errors.Is(err, refuse) {
			t.Errorf("against the check: %v", err)
		}
	}
	must(t, reach.Move(dir+"/a/file", dir+"/b/sub/file", true, agree))
	if data, _ := os.ReadFile(dir + "/b/sub/file"); string(data) != "another" {
		t.Errorf("with overwrite: %q", data)
	}
	if err := reach.Move(dir+"/b/sub", dir+"/a/sub", false, agree); err == nil {
		t.Error("a directory was moved to another root")
	}
}

// TestWhatIsChangedDuringAMoveIsNotLost: a move from one root to another reads the file before it writes it.
func TestWhatIsChangedDuringAMoveIsNotLost(t *testing.T) {
	dir := tree(t, "a/file", "b/file")
	reach := open(t, roots.Dir{Path: dir + "/a", Write: true}, roots.Dir{Path: dir + "/b", Write: true})
	asked, refuse := 0, errors.New("no")
	late := func(then func() error) func(roots.Look) error {
		asked = 0
		return func(roots.Look) error {
			if asked++; asked == 1 {
				return nil
			}
			return then()
		}
	}
	has := func(path, want string) {
		t.Helper()
		if data, err := os.ReadFile(dir + path); err != nil || string(data) != want {
			t.Errorf("%s has %q, %v", path, data, err)
		}
	}
	err := reach.Move(dir+"/a/file", dir+"/b/file", true, late(func() error { return refuse }))
	if !errors.Is(err, refuse) || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	has("/a/file", "a/file")
	has("/b/file", "b/file")
	err = reach.Move(dir+"/a/file", dir+"/b/file", true, late(func() error {
		return os.WriteFile(dir+"/a/file", []byte("newer"), 0o600)
	}))
	if err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("changed meanwhile: %v", err)
	}
	has("/a/file", "newer")
	has("/b/file", "a/file")
}

func TestFilesOfAVersionControlSystemAreKnown(t *testing.T) {
	for path, want := range map[string]bool{
		".git/hooks/pre-commit": true, "a/.GIT/HEAD": true, "mod.git/HEAD": true, "sub/.Hg": true, ".svn/x": true,
		".gitignore": false, "git/x": false, "a/.github/x": false,
	} {
		if roots.Versioned(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestASecretIsKnownByItsName(t *testing.T) {
	for _, path := range []string{
		".env", "a/.ENV.local", "x/prod.env", "cert.pem", "a/id_ed25519", ".ssh/config", "a/.aws/x", ".git/config",
		"deploy.KEY", "sub/.git/config", "mod.git/config", ".npmrc",
	} {
		if !roots.Secret(path) {
			t.Errorf("%s is open", path)
		}
	}
	for _, path := range []string{
		"main.go", ".env.example", "id_ed25519.pub", "env", "config", ".git/HEAD", "keys.go", "a/config", "environment",
		".", "a.env.md",
	} {
		if roots.Secret(path) {
			t.Errorf("%s is closed", path)
		}
	}
}

func FuzzNoArgumentLeadsOut(f *testing.F) {
	for _, seed := range []string{"/srv/a/../b", "~/x", "//srv//a", "/srv/a/.git", "a/../../b", "/srv/ab", "~", "/"} {
		f.Add(seed)
	}
	list, err := roots.NewList("/srv", []roots.Dir{{Path: "/srv/a"}, {Path: "/srv/a/b", Write: true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		p, err := list.Find(arg)
		if err != nil {
			return
		}
		if clean, err := rootfs.Clean(p.Path); err != nil || clean != p.Path {
			t.Errorf("%q leads to %q: %v", arg, p.Path, err)
		}
		if again, err := list.Find(p.String()); err != nil || again != p {
			t.Errorf("%q is %q, which is %+v: %v", arg, p, again, err)
		}
	})
}

func TestWhatIsClosedToProgramsIsFound(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{
		".env", "a/.env.local", "a/.env.example", "a/key.pem", "a/b/main.go", ".ssh/id_rsa", ".git/config", ".git/HEAD",
		"sub/.git/config", "bare.git/config", "config", "a/credentials",
	} {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("config", filepath.Join(dir, "link.pem")); err != nil {
		t.Fatal(err)
	}
	hide, keep, err := roots.ClosedToPrograms(dir)
	slices.Sort(hide)
	if want := []string{
		".env", ".git/config", ".ssh", "a/.env.local", "a/credentials", "a/key.pem", "bare.git/config",
		"sub/.git/config",
	}; err != nil || !slices.Equal(hide, want) {
		t.Errorf("hidden are %q, want %q; %v", hide, want, err)
	}
	if want := []string{".git", "bare.git", "sub/.git"}; !slices.Equal(keep, want) {
		t.Errorf("kept are %q, want %q", keep, want)
	}
	for i := range 513 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".key")), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := roots.ClosedToPrograms(dir); corebot.HintOf(err) == "" {
		t.Errorf("too many: %v", err)
	}
}
