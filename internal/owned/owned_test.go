package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a directory that the user alone can change, with a file two directories down.
func place(t *testing.T) (top, file string) {
	t.Helper()
	top = t.TempDir()
	// package testing makes the upper one 0700
	must(t, errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755)))
	file = filepath.Join(top, "a", "b", "file")
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte("text"), 0o600))
	return top, file
}

func TestWhatOthersCanChangeIsRefusedAndTheHintMendsIt(t *testing.T) {
	for name, c := range map[string]struct {
		at   string
		mode os.FileMode
		want string // empty: it is taken
	}{
		"a file as Corebot makes it":                       {"a/b/file", 0o600, ""},
		"a file that others read":                          {"a/b/file", 0o644, ""},
		"a file of its group":                              {"a/b/file", 0o620, "chmod g-w "},
		"a file of everyone":                               {"a/b/file", 0o602, "chmod o-w "},
		"a file of both":                                   {"a/b/file", 0o666, "chmod go-w "},
		"a directory on the way, of everyone":              {"a", 0o757, "chmod o-w "},
		"a directory on the way, of everyone and group":    {"a", 0o777, "chmod go-w "},
		"a directory on the way, of everyone but sticky":   {"a", 0o777 | fs.ModeSticky, ""},
		"the directory of the file, of everyone":           {"a/b", 0o777, "chmod go-w "},
		"a directory on the way that others can only read": {"a/b", 0o755, ""},
	} {
		t.Run(name, func(t *testing.T) {
			top, file := place(t)
			at := filepath.Join(top, c.at)
			must(t, os.Chmod(at, c.mode))
			requireJudged(t, file, c.want, at)
			if c.want == "" {
				return
			}
			must(t, os.Chmod(at, c.mode&^0o022)) // as the hint says
			requireJudged(t, file, "", at)
		})
	}
}

// requireJudged: Check and Open agree. want is in the hint, and at in the error.
func requireJudged(t *testing.T, file, want, at string) {
	t.Helper()
	err := Check(file)
	f, _, opened := Open(file)
	if f != nil {
		must(t, f.Close())
	}
	for _, err := range []error{err, opened} {
		switch {
		case want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case want != "" && (!errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(), at+" ") ||
			!strings.HasSuffix(corebot.HintOf(err), want+at)):
			t.Errorf("got %v (%s), want %s%s", err, corebot.HintOf(err), want, at)
		}
	}
}

// TestWhatBelongsToAnotherUserIsRefused judges for users who own the file, and for those who do not: no rights are
// needed for that.
func TestWhatBelongsToAnotherUserIsRefused(t *testing.T) {
	_, file := place(t)
	info, err := os.Stat(file)
	must(t, err)
	uid, _ := owner(info)
	if _, err := (judge{uid}).resolve(file); err != nil {
		t.Errorf("its owner: %v", err)
	}
	_, err = judge{uid + 12345}.resolve(file)
	if uid == 0 && err != nil {
		t.Errorf("what is root's: %v", err)
	}
	if uid != 0 && !errors.Is(err, ErrNotOurs) {
		t.Errorf("somebody else: %v", err)
	}
}

func TestOnlyRootAndCorebotsUserAreTrusted(t *testing.T) {
	needs.Root(t)
	const stranger, other = 54321, 54322
	for _, at := range []string{"a", "a/b", "a/b/file"} {
		top, file := place(t)
		at := filepath.Join(top, at)
		must(t, os.Chown(at, stranger, stranger))
		for _, us := range []int{0, other} {
			_, err := judge{us}.resolve(file)
			hint := corebot.HintOf(err)
			if !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(),
				at+" belongs to another user, user 54321") || !strings.Contains(hint, "sudo -u 54321 corebot") {
				t.Errorf("%s, for user %d: %v (%s)", at, us, err, hint)
			}
			if at == file != strings.Contains(hint, "chown ") { // nobody is told to take a directory that others use
				t.Errorf("%s: the hint is %q", at, hint)
			}
		}
		if _, err := (judge{stranger}).resolve(file); err != nil {
			t.Errorf("%s, for its owner: %v", at, err)
		}
	}
	top, file := place(t)
	must(t, errors.Join(os.Chown(filepath.Join(top, "a"), 0, 100), os.Chmod(filepath.Join(top, "a"), 0o775)))
	if err := Check(file); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a directory that a group can write: %v", err)
	}
	must(t, os.Chown(filepath.Join(top, "a"), 0, 0))
	if err := Check(file); err != nil {
		t.Errorf("a directory that root's group can write: %v", err)
	}
}

func TestAStickyDirectoryIsOnlySafeForWhatIsOurs(t *testing.T) {
	needs.Root(t)
	top, file := place(t)
	sticky := filepath.Join(top, "sticky")
	link := filepath.Join(sticky, "link")
	must(t, errors.Join(os.Mkdir(sticky, 0o700), os.Chmod(sticky, 0o777|fs.ModeSticky),
		os.Symlink(filepath.Dir(file), link)))
	if err := Check(filepath.Join(link, "file")); err != nil {
		t.Errorf("a link of ours: %v", err)
	}
	must(t, os.Lchown(link, 54321, 54321))
	if err := Check(filepath.Join(link, "file")); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a link of somebody else, to what is ours: %v", err)
	}
	must(t, errors.Join(os.Remove(link), os.Chown(sticky, 54321, 54321), os.WriteFile(link, nil, 0o600)))
	if err := Check(link); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a file in a sticky directory of somebody else: %v", err)
	}
}

// TestBelowAPrivateDirectoryRightsToWriteMeanNothing has what a umask of 002 and an editor leave in a home of 0700.
func TestBelowAPrivateDirectoryRightsToWriteMeanNothing(t *testing.T) {
	for name, c := range map[string]struct {
		top, dir, file os.FileMode
		refused        string // what the error names; empty: nothing is
	}{
		"a file of its group":                       {0o700, 0o755, 0o664, ""},
		"a file and its directory, of everyone":     {0o700, 0o777, 0o666, ""},
		"where others can list, but not search":     {0o744, 0o777, 0o666, ""},
		"where the group can search":                {0o710, 0o755, 0o664, "a/b/file"},
		"where everyone can search":                 {0o701, 0o755, 0o602, "a/b/file"},
		"a directory of its group, below an open":   {0o755, 0o770, 0o600, "a/b"},
		"the directory itself, which others search": {0o711, 0o777, 0o600, "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			top, file := place(t)
			must(t, errors.Join(os.Chmod(file, c.file), os.Chown(filepath.Dir(file), -1, 100),
				os.Chmod(filepath.Dir(file), c.dir), os.Chmod(top, c.top)))
			if c.refused == "" {
				requireJudged(t, file, "", "")
				return
			}
			if err := Check(file); !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(),
				filepath.Join(top, c.refused)+" can be written") {
				t.Errorf("got %v, want %s refused", err, c.refused)
			}
		})
	}
}

func TestWhatHasANameOutsideIsNotShutIn(t *testing.T) {
	top, file := place(t)
	must(t, errors.Join(os.Chmod(file, 0o664), os.Chmod(filepath.Join(top, "a"), 0o700)))
	requireJudged(t, file, "", "")
	must(t, os.Link(file, filepath.Join(top, "name")))
	requireJudged(t, file, "chmod g-w ", file)
	must(t, os.Remove(filepath.Join(top, "name")))
	outside := filepath.Join(top, "outside")
	must(t, errors.Join(os.WriteFile(outside, nil, 0o600), os.Chmod(outside, 0o664)))
	for _, to := range []string{outside, "../../outside"} { // a link leads out, and so does ".."
		link := filepath.Join(top, "a", "b", "link")
		must(t, os.Symlink(to, link))
		requireJudged(t, link, "chmod g-w ", outside)
		must(t, os.Remove(link))
	}
	// its name begins like the private one's
	must(t, errors.Join(os.Mkdir(filepath.Join(top, "ab"), 0o755),
		os.Rename(outside, filepath.Join(top, "ab", "outside"))))
	must(t, os.Symlink("../../ab/outside", filepath.Join(top, "a", "b", "link")))
	requireJudged(t, filepath.Join(top, "a", "b", "link"), "chmod g-w ", filepath.Join(top, "ab", "outside"))
}

func TestAPrivateDirectoryItselfIsJudged(t *testing.T) {
	top, file := place(t)
	private := filepath.Join(top, "a")
	must(t, os.Chmod(private, 0o720))
	if err := Check(private); !errors.Is(err, ErrNotOurs) || !strings.HasSuffix(corebot.HintOf(err),
		"chmod g-w "+private) {
		t.Errorf("got %v", err)
	}
	if os.Getuid() == 0 {
		must(t, os.Chmod(private, 0o700))
		must(t, os.Lchown(file, 54321, 54321))
		if err := Check(file); !errors.Is(err, ErrNotOurs) {
			t.Errorf("a stranger's file in it: %v", err)
		}
	}
}

func TestLinksAreFollowedAndWhatIsBehindThemIsJudged(t *testing.T) {
	top, file := place(t)
	for name, to := range map[string]string{"absolute": filepath.Dir(file), "relative": "a/b", "round": "a/../a/b"} {
		must(t, os.Symlink(to, filepath.Join(top, name)))
		if got, err := Resolve(filepath.Join(top, name, "file")); err != nil || got != file {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	must(t, errors.Join(os.Symlink("a/b/../../a", filepath.Join(top, "up")),
		os.Symlink("absolute/../b", filepath.Join(top, "behind"))))
	for _, name := range []string{"up/b", "behind"} {
		if got, err := Resolve(filepath.Join(top, name, "file")); err != nil || got != file {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	must(t, os.Symlink("loop", filepath.Join(top, "loop")))
	if _, err := Resolve(filepath.Join(top, "loop", "file")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a circle: %v", err)
	}
	must(t, os.Chmod(filepath.Join(top, "a"), 0o777))
	if err := Check(filepath.Join(top, "absolute", "file")); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a link to what others can exchange: %v", err)
	}
}

func TestWhatIsNotThereYetIsFineWhereNobodyElseCanMakeIt(t *testing.T) {
	top, file := place(t)
	for _, path := range []string{filepath.Join(top, "none"), filepath.Join(top, "none", "deeper"), file + "2"} {
		if err := Check(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, _, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Resolve(filepath.Join(file, "below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	must(t, os.Chmod(top, 0o777))
	if err := Check(filepath.Join(top, "none")); !errors.Is(err, ErrNotOurs) {
		t.Errorf("where everyone can make it: %v", err)
	}
	must(t, os.Chmod(top, 0o777|fs.ModeSticky)) // as /tmp: [MakeDir] looks again
	if err := Check(filepath.Join(top, "none")); err != nil {
		t.Errorf("below a sticky directory: %v", err)
	}
	if _, err := Resolve(filepath.Join(top, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below a sticky directory: %v", err)
	}
}

// TestADirectoryThatSomebodyElseMadeMeanwhileIsRefused: the path is missing when MakeDir looks, and everybody can write
// the directory that MkdirAll then finds there.
func TestADirectoryThatSomebodyElseMadeMeanwhileIsRefused(t *testing.T) {
	top, _ := place(t)
	must(t, os.Chmod(top, 0o777|fs.ModeSticky))
	first := func(path string, _ fs.FileMode) error {
		must(t, errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)))
		return os.MkdirAll(path, 0o700)
	}
	home := filepath.Join(top, "home")
	if err := (judge{os.Geteuid()}).makeDir(home, first); !errors.Is(err, ErrNotOurs) {
		t.Errorf("somebody else was first: %v", err)
	}
	if err := MakeDir(home); !errors.Is(err, ErrNotOurs) {
		t.Errorf("it was there before: %v", err)
	}
	if err := MakeDir(filepath.Join(top, "other", "data")); err != nil {
		t.Errorf("nobody was first: %v", err)
	}
	if _, err := Resolve(filepath.Join(top, "other", "data")); err != nil {
		t.Error(err)
	}
}

func TestOnlyAPlainFileIsOpenedAndNobodyIsWaitedFor(t *testing.T) {
	top, file := place(t)
	fifo := filepath.Join(top, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{fifo, filepath.Dir(file)} {
		if _, _, err := Open(path); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestHintsCanBeGivenToAShell(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/corebot-1": "/srv/corebot-1", "/a b": "'/a b'",
		"/it's": `'/it'\''s'`, "/$(x)": "'/$(x)'",
	} {
		if got := quoted(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestTheHintAboutWhatIsRootsNamesChown has a volume as container platforms mount it: it is root's, and everyone can
// write it.
func TestTheHintAboutWhatIsRootsNamesChown(t *testing.T) {
	needs.Root(t)
	const user = 54321
	for name, c := range map[string]struct {
		mode   os.FileMode
		below  string
		us     int
		before string // of the path, what the hint ends with
	}{
		"the home":                      {0o777, "", user, "as root: chown 54321 %[1]s && chmod go-w %[1]s"},
		"the home, of a group":          {0o770, "", user, "as root: chown 54321 %[1]s && chmod g-w %[1]s"},
		"the way to the home":           {0o777, "home", user, "as root: chmod go-w %[1]s"},
		"the home, and Corebot is root": {0o777, "", 0, "then: chmod go-w %[1]s"},
	} {
		top, _ := place(t)
		volume := filepath.Join(top, "a")
		must(t, errors.Join(os.Chown(volume, 0, 100), os.Chmod(volume, c.mode)))
		_, err := judge{c.us}.resolve(filepath.Join(volume, c.below))
		if want := fmt.Sprintf(c.before, volume); !errors.Is(err, ErrNotOurs) ||
			!strings.HasSuffix(corebot.HintOf(err), want) {
			t.Errorf("%s: %v (%s), want %s", name, err, corebot.HintOf(err), want)
		}
	}
}

func TestWhereNothingCanBeMadeTheHintGivesTheHomeToCorebotsUser(t *testing.T) {
	denied := &fs.PathError{Op: "mkdir", Path: "/srv/a b", Err: syscall.EACCES}
	const chown = ", or as root: mkdir -p '/srv/a b' && chown 54321 '/srv/a b'"
	for name, c := range map[string]struct {
		us   int
		err  error
		want bool
	}{
		"its user has no rights": {54321, denied, true},
		"root has none":          {0, denied, false},
		"it is read only":        {54321, syscall.EROFS, false},
	} {
		if got := (judge{c.us}).elsewhere(c.err, "/srv/a b"); strings.HasSuffix(got, chown) != c.want ||
			!strings.Contains(got, "--home") {
			t.Errorf("%s: the hint is %q", name, got)
		}
	}
}

func TestAccountsOfServicesDoNotLogIn(t *testing.T) {
	before := usersFile
	t.Cleanup(func() { usersFile = before })
	usersFile = filepath.Join(t.TempDir(), "passwd")
	must(t, os.WriteFile(usersFile, []byte(`root:x:0:0:root:/root:/bin/bash
corebot:x:990:990::/var/lib/corebot:/usr/sbin/nologin
daemon:x:1:1::/:/bin/false
no line of this file
sync:x:4:65534:sync:/bin:
`), 0o600))
	for uid, want := range map[int]bool{0: true, 990: false, 1: false, 4: true, 99: true, 9: true} {
		if got := LogsIn(uid); got != want {
			t.Errorf("the user %d logs in: %v", uid, got)
		}
	}
	usersFile += " of nobody"
	if !LogsIn(990) {
		t.Error("without the file nobody logs in")
	}
}
