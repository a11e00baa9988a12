package pack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
)

const page = "---\nname: knots\ndescription: Ties knots. Use it for ropes.\n---\n\n# Knots\n\nTie them.\n"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is one of an archive. An empty kind is a regular file.
type entry struct{ name, kind, data string }

func zipped(t testing.TB, all ...entry) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o600)
		if e.kind == "link" {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		must(t, err)
		_, err = f.Write([]byte(e.data))
		must(t, err)
	}
	must(t, w.Close())
	return saved(t, "skill.zip", b.Bytes())
}

func tarred(t testing.TB, all ...entry) string {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	types := map[string]byte{
		"": tar.TypeReg, "link": tar.TypeSymlink, "hard": tar.TypeLink, "device": tar.TypeChar, "fifo": tar.TypeFifo,
	}
	for _, e := range all {
		h := &tar.Header{Name: e.name, Typeflag: types[e.kind], Mode: 0o600}
		if e.kind == "" {
			h.Size = int64(len(e.data))
		} else {
			h.Linkname = e.data
		}
		must(t, w.WriteHeader(h))
		if e.kind == "" {
			_, err := w.Write([]byte(e.data))
			must(t, err)
		}
	}
	must(t, errors.Join(w.Close(), g.Close()))
	return saved(t, "skill.tgz", b.Bytes())
}

func saved(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

func unfolded(t testing.TB, all ...entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range all {
		path := filepath.Join(dir, e.name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if e.kind == "link" {
			must(t, os.Symlink(e.data, path))
			continue
		}
		must(t, os.WriteFile(path, []byte(e.data), 0o600))
	}
	return dir
}

func TestASkillIsTheSameFromADirectoryAndFromEveryArchive(t *testing.T) {
	all := []entry{
		{name: "knots/SKILL.md", data: page},
		{name: "knots/scripts/tie.sh", data: "echo tie"},
		{name: "README", data: "x"},
	}
	var hash string
	for _, from := range []string{unfolded(t, all...), zipped(t, all...), tarred(t, all...)} {
		p, err := Read(from, "")
		must(t, err)
		if p.Name != "knots" || len(p.Files) != 2 || p.Files[1].Path != "scripts/tie.sh" ||
			hash != "" && p.Hash != hash {
			t.Errorf("%s gives %+v", from, p)
		}
		hash = p.Hash
	}
}

func TestAHostileSourceIsRefused(t *testing.T) {
	good := entry{name: "SKILL.md", data: page}
	many := []entry{good}
	for i := range MaxFiles {
		many = append(many, entry{name: fmt.Sprintf("f%d", i), data: "x"})
	}
	crowd := make([]entry, MaxEntries+1)
	for i := range crowd {
		crowd[i] = entry{name: fmt.Sprintf("other/%d", i)}
	}
	bomb := strings.Repeat("\x00", MaxBytes)
	for name, from := range map[string]string{
		"zip: a name that leads out":        zipped(t, good, entry{name: "../evil", data: "x"}),
		"zip: an absolute name":             zipped(t, good, entry{name: "/etc/evil", data: "x"}),
		"zip: a backslash":                  zipped(t, good, entry{name: `..\evil`, data: "x"}),
		"zip: a name that is turned around": zipped(t, good, entry{name: "a\u202Efdp.exe", data: "x"}),
		"zip: a name that is no text":       zipped(t, good, entry{name: "a\xff", data: "x"}),
		"zip: a link":                       zipped(t, good, entry{"l", "link", "/etc/passwd"}),
		"zip: the same name twice":          zipped(t, good, entry{name: "a", data: "1"}, entry{name: "a", data: "2"}),
		"zip: two names for one file":       zipped(t, good, entry{name: "a", data: "1"}, entry{name: "A", data: "2"}),
		"zip: two pages":                    zipped(t, good, entry{name: "skill.md", data: page}),
		"zip: a bomb":                       zipped(t, good, entry{name: "a", data: bomb}, entry{name: "b", data: "x"}),
		"zip: many files":                   zipped(t, many...),
		"zip: a crowd":                      zipped(t, append(crowd, good)...),
		"tar: a name that leads out":        tarred(t, good, entry{name: "a/../../evil", data: "x"}),
		"tar: a link":                       tarred(t, good, entry{"l", "link", "../../evil"}),
		"tar: a hard link":                  tarred(t, good, entry{"l", "hard", "SKILL.md"}),
		"tar: a device":                     tarred(t, good, entry{"d", "device", ""}),
		"tar: a pipe":                       tarred(t, good, entry{"p", "fifo", ""}),
		"tar: a page that is a link":        tarred(t, entry{"SKILL.md", "link", "/etc/passwd"}),
		"tar: a bomb beside the skill": tarred(t, entry{name: "knots/SKILL.md", data: page},
			entry{name: "big", data: strings.Repeat("\x00", maxUnpacked)}),
		"directory: a link":           unfolded(t, good, entry{"l", "link", "/etc/passwd"}),
		"directory: a link to a page": unfolded(t, entry{"SKILL.md", "link", "/etc/passwd"}),
		"directory: no skill":         unfolded(t, entry{name: "README", data: "x"}),
		"a page without a name":       unfolded(t, entry{name: "SKILL.md", data: "---\ndescription: x\n---\n"}),
		"two skills": unfolded(t, entry{name: "a/SKILL.md", data: page},
			entry{name: "b/SKILL.md", data: page}),
		"a text":         saved(t, "x.zip", []byte("this is no archive")),
		"a torn archive": saved(t, "x.zip", []byte("PK\x03\x04torn")),
		"a torn gzip":    saved(t, "x.tgz", []byte{0x1f, 0x8b, 8, 0, 1}),
	} {
		if p, err := Read(from, ""); err == nil {
			t.Errorf("%s gives %s with %d files", name, p.Name, len(p.Files))
		}
	}
}

func TestASkillOfManyIsNamed(t *testing.T) {
	other := strings.ReplaceAll(page, "knots", "sails")
	from := zipped(t, entry{name: "skills/knots/SKILL.md", data: page},
		entry{name: "skills/sails/SKILL.md", data: other}, entry{name: "skills/sails/map.txt", data: "x"},
		entry{name: ".git/HEAD", data: "x"})
	if p, err := Read(from, "sails"); err != nil || p.Name != "sails" || len(p.Files) != 2 {
		t.Errorf("got %+v: %v", p, err)
	}
	for _, name := range []string{"", "ropes"} {
		if _, err := Read(from, name); err == nil || !strings.Contains(corebot.HintOf(err), "knots, sails") {
			t.Errorf("%q gives %v (%s)", name, err, corebot.HintOf(err))
		}
	}
}

func TestASkillIsInstalledReplacedAndRemoved(t *testing.T) {
	workspace, staging := t.TempDir(), t.TempDir()
	first, err := Read(unfolded(t, entry{name: "SKILL.md", data: page}, entry{name: "old.txt", data: "x"}), "")
	must(t, err)
	among := filepath.Join(workspace, "skills")
	left := filepath.Join(staging, "skill-killed")
	must(t, os.MkdirAll(left, 0o700))
	must(t, os.Chtimes(left, time.Time{}, time.Now().Add(-2*time.Hour)))
	must(t, Install(among, staging, first, "", time.Now()))
	if again := Install(among, staging, first, "", time.Now()); !errors.Is(again, corebot.ErrInvalid) {
		t.Errorf("a skill that has come meanwhile is replaced: %v", again)
	}
	was, err := Look(among, "knots")
	must(t, err)
	if !was.Noted || was.Changed || was.Hash != first.Hash || was.Note.Source != first.Source {
		t.Errorf("installed is %+v", was)
	}
	second, err := Read(unfolded(t, entry{name: "SKILL.md", data: page + "Well.\n"},
		entry{name: "new.txt", data: "x"}), "")
	must(t, err)
	words := ""
	for _, c := range Compare(was.Files, second.Files) {
		words += c.Word + " " + c.Path + "\n"
		if c.Word == "changed" && !strings.Contains(c.Diff, "+Well.") {
			t.Errorf("the difference is %q", c.Diff)
		}
	}
	if words != "changed SKILL.md\nnew new.txt\ngone old.txt\n" {
		t.Errorf("it would change\n%s", words)
	}
	must(t, os.WriteFile(filepath.Join(among, "knots", "old.txt"), []byte("by hand"), 0o600))
	if late := Install(among, staging, second, was.Hash, time.Now()); !errors.Is(late, corebot.ErrInvalid) {
		t.Errorf("a skill that was changed meanwhile is replaced: %v", late)
	}
	changed, err := Look(among, "knots")
	must(t, err)
	if !changed.Changed {
		t.Error("what was written by hand is gone")
	}
	must(t, Install(among, staging, second, changed.Hash, time.Now()))
	if now, err := Look(among, "knots"); err != nil || now.Hash != second.Hash || now.Changed {
		t.Errorf("replaced it is %+v: %v", now, err)
	}
	must(t, os.WriteFile(filepath.Join(workspace, skills.Dir, "knots", "new.txt"), []byte("by hand"), 0o600))
	if now, err := Look(among, "knots"); err != nil || !now.Changed {
		t.Errorf("changed by hand it is %+v: %v", now, err)
	}
	must(t, Remove(among, staging, "knots"))
	if _, err := Look(among, "knots"); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("removed it is %v", err)
	}
	if err := Remove(among, staging, "knots"); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a second time it is %v", err)
	}
	if left, err := os.ReadDir(staging); err != nil || len(left) > 0 {
		t.Errorf("left are %v: %v", left, err)
	}
}

// A repository in a skill is no part of it, wherever it lies. The hash is the same from a directory and from an
// archive, and the same once the skill is installed.
func TestNoRepositoryIsPartOfASkill(t *testing.T) {
	all := []entry{
		{name: "SKILL.md", data: page},
		{name: "sub/.git/hooks/run.sh", data: "evil"},
		{name: "sub/x", data: "x"},
		{name: "inner.zip", data: "PK\x03\x04not unpacked"},
	}
	for _, from := range []string{unfolded(t, all...), zipped(t, all...), tarred(t, all...)} {
		p, err := Read(from, "")
		must(t, err)
		among, staging := t.TempDir(), t.TempDir()
		must(t, Install(among, staging, p, "", time.Now()))
		is, err := Look(among, "knots")
		must(t, err)
		if len(p.Files) != 3 || is.Hash != p.Hash || is.Changed {
			t.Errorf("%s has %d files with the hash %s, installed %s", from, len(p.Files), p.Hash, is.Hash)
		}
		if _, err := os.Lstat(filepath.Join(among, "knots", "sub", ".git")); err == nil {
			t.Error("the repository is installed")
		}
	}
}

// Where file systems fold case, .GIT is a repository, and its hooks are run by git.
func TestNoRepositoryInOtherLettersIsPartOfASkill(t *testing.T) {
	all := []entry{{name: "SKILL.md", data: page}, {name: "sub/.Git/hooks/run.sh", data: "evil"}}
	for _, from := range []string{unfolded(t, all...), zipped(t, all...), tarred(t, all...)} {
		if p, err := Read(from, ""); err != nil || len(p.Files) != 1 {
			t.Errorf("%s gives %+v: %v", from, p.Files, err)
		}
	}
}

// A link, a file or a repository can have the name of a skill. Its content is nowhere else, and no hash shows it.
func TestWhatIsNoSkillIsNeitherReplacedNorRemoved(t *testing.T) {
	p, err := Read(unfolded(t, entry{name: "SKILL.md", data: page}), "")
	must(t, err)
	for name, put := range map[string]func(place string) (stays string){
		"a link": func(place string) string {
			must(t, os.Symlink(t.TempDir(), place))
			return place
		},
		"a file": func(place string) string {
			must(t, os.WriteFile(place, []byte("notes"), 0o600))
			return place
		},
		"a repository": func(place string) string {
			must(t, os.MkdirAll(filepath.Join(place, ".git"), 0o700))
			return filepath.Join(place, ".git")
		},
		"a submodule": func(place string) string {
			must(t, os.MkdirAll(filepath.Join(place, "sub"), 0o700))
			must(t, os.WriteFile(filepath.Join(place, "sub", ".git"), []byte("gitdir: x"), 0o600))
			return filepath.Join(place, "sub", ".git")
		},
		"a repository in other letters": func(place string) string {
			must(t, os.MkdirAll(filepath.Join(place, ".GIT"), 0o700))
			return filepath.Join(place, ".GIT")
		},
	} {
		among, staging := t.TempDir(), t.TempDir()
		stays := put(filepath.Join(among, "knots"))
		before, err := os.Lstat(stays)
		must(t, err)
		was, err := Look(among, "knots")
		if err != nil && !errors.Is(err, corebot.ErrNotFound) {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"install": Install(among, staging, p, was.Hash, time.Now()),
			"remove":  Remove(among, staging, "knots"),
		} {
			if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(corebot.HintOf(err), "move it away") {
				t.Errorf("%s: %s gives %v (%s)", name, what, err, corebot.HintOf(err))
			}
		}
		if after, err := os.Lstat(stays); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is not there any more: %v", name, err)
		}
	}
}

func TestAnInstallSweepsItsOwnDirectoryAndNoOtherThatItsNameMatches(t *testing.T) {
	home := t.TempDir()
	staging := filepath.Join(home, "bot[12]")
	other, own := filepath.Join(home, "bot1", "skill-mine"), filepath.Join(staging, "skill-killed")
	must(t, errors.Join(os.MkdirAll(other, 0o700), os.MkdirAll(own, 0o700)))
	p, err := Read(unfolded(t, entry{name: "SKILL.md", data: page}), "")
	must(t, err)
	must(t, Install(filepath.Join(home, "skills"), staging, p, "", time.Now().Add(2*time.Hour)))
	if _, err := os.Lstat(other); err != nil {
		t.Errorf("the directory of another is gone: %v", err)
	}
	if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed install left is there: %v", err)
	}
}

// A disk can fail between the two steps of an install, where a file system knows no exchange.
func TestTheOnlyCopyOfASkillIsKeptAndNamedIfItCannotBePutBack(t *testing.T) {
	among, staging := t.TempDir(), t.TempDir()
	first, second := versions(t)
	must(t, Install(among, staging, first, "", time.Now()))
	fails := errors.New("the disk fails")
	err := install(among, staging, second, first.Hash, time.Now(), func(fresh, place string) error {
		return inTurn(func(from, to string) error {
			if to == place {
				return fails
			}
			return os.Rename(from, to)
		}, fresh, place)
	})
	kept, _ := filepath.Glob(filepath.Join(staging, "skill-*", "knots.old"))
	if len(kept) != 1 || !errors.Is(err, fails) || !strings.Contains(err.Error(), kept[0]) ||
		!strings.Contains(corebot.HintOf(err), kept[0]) {
		t.Fatalf("kept is %q: %v (%s)", kept, err, corebot.HintOf(err))
	}
	// Neither does a later install delete it.
	must(t, Install(among, staging, second, "", time.Now().Add(2*time.Hour)))
	if old, err := Look(filepath.Dir(kept[0]), "knots.old"); err != nil || old.Hash != first.Hash {
		t.Errorf("later it is %v: %v", old.Files, err)
	}
}

// An archive of a few kilobytes can have a directory that fills memory, or one page a thousand times.
func TestAnArchiveFillsNoMemory(t *testing.T) {
	var crowd, copies []entry
	for i := range 100_000 {
		crowd = append(crowd, entry{name: fmt.Sprintf("%0100d/", i)})
	}
	long := page + strings.Repeat("x", skills.MaxFile-len(page))
	for i := range maxUnpacked/skills.MaxFile + 1 {
		copies = append(copies, entry{name: fmt.Sprintf("k%d/SKILL.md", i), data: long})
	}
	for from, want := range map[string]string{
		zipped(t, append(crowd, entry{name: "SKILL.md", data: page})...): "its directory has more than 8 MiB",
		zipped(t, copies...): "have more than 64 MiB together",
	} {
		if _, err := Find(from); !errors.Is(err, corebot.ErrTooLarge) || !strings.Contains(err.Error(), want) {
			t.Errorf("it gives %v, want %q", err, want)
		}
	}
}

// A pipe can come into the place of a file between the look and the read, and nobody writes into it.
func TestNobodyWaitsForAPipe(t *testing.T) {
	from := unfolded(t, entry{name: "SKILL.md", data: page}, entry{name: ".git/config", data: "x"})
	must(t, syscall.Mkfifo(filepath.Join(from, ".git", "HEAD"), 0o600))
	if p, err := Read(from, ""); err != nil || p.Commit != "" {
		t.Errorf("a pipe in the place of a commit gives %q: %v", p.Commit, err)
	}
	root, err := os.OpenRoot(from)
	must(t, err)
	defer root.Close() //nolint:errcheck // only read
	if data, err := readIn(root, ".git/HEAD", 10); err == nil {
		t.Errorf("a pipe gives %q", data)
	}
}

func TestACheckoutNamesItsCommit(t *testing.T) {
	commit := strings.Repeat("0a", 20)
	for name, git := range map[string][]entry{
		"a branch": {
			{name: ".git/HEAD", data: "ref: refs/heads/main\n"}, {name: ".git/refs/heads/main", data: commit + "\n"},
		},
		"a commit": {{name: ".git/HEAD", data: commit + "\n"}},
		"a branch that is packed": {
			{name: ".git/HEAD", data: "ref: refs/heads/main\n"}, {name: ".git/packed-refs", data: "# pack-refs\n" +
				strings.Repeat("1", 40) + " refs/heads/main2\n" + commit + " refs/heads/main\n^" + commit + "\n"},
		},
		"a trap":     {{name: ".git/HEAD", data: "ref: ../../secret\n"}, {name: "secret", data: commit}},
		"no commit":  {{name: ".git/HEAD", data: "rm -rf /\n"}},
		"no git":     nil,
		"a long one": {{name: ".git/HEAD", data: strings.Repeat("a", 5000)}},
	} {
		p, err := Read(unfolded(t, append(git, entry{name: "SKILL.md", data: page})...), "")
		must(t, err)
		want := map[string]string{
			"a branch": commit, "a commit": commit, "a branch that is packed": commit,
		}[name]
		if p.Commit != want {
			t.Errorf("%s: the commit is %q, want %q", name, p.Commit, want)
		}
		for _, f := range p.Files {
			if strings.HasPrefix(f.Path, ".git") {
				t.Errorf("%s: %s belongs to the skill", name, f.Path)
			}
		}
	}
}

// FuzzNoArchiveHarms reads anything as an archive. A skill that is read keeps the limits, and no name leads out.
func FuzzNoArchiveHarms(f *testing.F) {
	for _, from := range []string{
		zipped(f, entry{name: "SKILL.md", data: page}),
		tarred(f, entry{name: "k/SKILL.md", data: page}, entry{"l", "link", "x"}),
	} {
		data, err := os.ReadFile(from)
		must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(saved(t, "x", data), "")
		if err != nil {
			return
		}
		size := 0
		for _, f := range p.Files {
			size += len(f.Data)
			if !filepath.IsLocal(f.Path) {
				t.Errorf("a file goes to %q", f.Path)
			}
		}
		if len(p.Files) > MaxFiles || size > MaxBytes || len(p.Files) == 0 {
			t.Errorf("%d files with %d bytes", len(p.Files), size)
		}
	})
}
