package dirtree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage/seedtest"
)

func TestMain(m *testing.M) { seedtest.Main(m) }

// odd are names that a program can give, and that most programs do not expect.
var odd = []string{"\xff\xfe", "a\nb", "-rf", "\u202egnp.txt", strings.Repeat("n", 255), "..."}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rootAt(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// fill makes a directory with odd names: a file of each, a directory of each with a file, and nothing else.
func fill(t *testing.T, dir string) (files int64) {
	t.Helper()
	for _, name := range odd {
		must(t, os.WriteFile(filepath.Join(dir, "f"+name[:min(len(name), 250)]), []byte(name), 0o600))
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, name), []byte("below "+name), 0o600))
		files += 2
	}
	return files
}

// deep makes a chain of directories with a file in the last one, whose path no system call takes.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	at := rootAt(t, dir)
	for range levels {
		must(t, at.Mkdir("d", 0o700))
		next, err := at.OpenRoot("d")
		must(t, errors.Join(err, at.Close()))
		at = next
	}
	must(t, errors.Join(at.WriteFile("end", []byte("deep"), 0o600), at.Close()))
}

// fewFiles has a test fail that keeps files open.
func fewFiles(t *testing.T) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = 200
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) })
}

// reap deletes a tree whose depth the testing package cannot delete.
func reap(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		at, err := os.OpenRoot(dir)
		must(t, err)
		defer at.Close() //nolint:errcheck // only a test
		for _, name := range []string{"tree", "copy"} {
			_, err := Remove(context.Background(), at, name)
			must(t, err)
		}
	})
}

func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func TestATreeWithAnyNamesIsDeletedAndNothingBesideIt(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	tree := filepath.Join(dir, "tree")
	must(t, errors.Join(os.Mkdir(outside, 0o700), os.Mkdir(tree, 0o700)))
	must(t, os.WriteFile(filepath.Join(outside, "theirs"), nil, 0o600))
	files := fill(t, tree)
	for _, in := range []string{tree, filepath.Join(tree, odd[0])} {
		must(t, os.Symlink(outside, filepath.Join(in, "out")))
		must(t, os.Symlink("../outside/theirs", filepath.Join(in, "file")))
		must(t, syscall.Mkfifo(filepath.Join(in, "fifo"), 0o600))
		files += 3
	}
	n, err := Remove(t.Context(), rootAt(t, dir), "tree")
	if err != nil || n != files {
		t.Errorf("%d files were deleted, want %d: %v", n, files, err)
	}
	if got := entriesOf(t, dir); !slices.Equal(got, []string{"outside"}) || len(entriesOf(t, outside)) != 1 {
		t.Errorf("left are %q", got)
	}
	if n, err := Remove(t.Context(), rootAt(t, dir), "tree"); n != 0 || err != nil {
		t.Errorf("what is not there: %d %v", n, err)
	}
}

func TestALinkInThePlaceOfATreeIsDeletedAsALink(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "theirs"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "theirs", "file"), nil, 0o600))
	must(t, os.Symlink("theirs", filepath.Join(dir, "tree")))
	n, err := Remove(t.Context(), rootAt(t, dir), "tree")
	if n != 1 || err != nil || len(entriesOf(t, filepath.Join(dir, "theirs"))) != 1 {
		t.Errorf("%d were deleted: %v", n, err)
	}
}

func TestADeepTreeIsDeletedWithFewOpenFiles(t *testing.T) {
	dir := t.TempDir()
	fewFiles(t)
	reap(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, "tree"), 0o700))
	deep(t, filepath.Join(dir, "tree"), 2_000)
	if n, err := Remove(t.Context(), rootAt(t, dir), "tree"); n != 1 || err != nil || len(entriesOf(t, dir)) != 0 {
		t.Errorf("%d were deleted: %v", n, err)
	}
}

// TestADeepTreeIsCopiedWithFewOpenFiles has a tree of fewer levels: each directory of the copy is synced.
func TestADeepTreeIsCopiedWithFewOpenFiles(t *testing.T) {
	dir := t.TempDir()
	fewFiles(t)
	reap(t, dir)
	tree, copied := filepath.Join(dir, "tree"), filepath.Join(dir, "copy")
	must(t, errors.Join(os.Mkdir(tree, 0o700), os.Mkdir(copied, 0o700)))
	deep(t, tree, 300)
	did, err := Copy(t.Context(), rootAt(t, tree), rootAt(t, copied))
	if err != nil || did != (Copied{Files: 1}) {
		t.Fatalf("copied were %+v: %v", did, err)
	}
	if n, err := Remove(t.Context(), rootAt(t, dir), "copy"); n != 1 || err != nil {
		t.Errorf("of the copy %d were deleted: %v", n, err)
	}
}

// TestABranchingTreeIsCopiedWhole goes back to directories that were closed meanwhile.
func TestABranchingTreeIsCopiedWhole(t *testing.T) {
	dir := t.TempDir()
	tree, copied := filepath.Join(dir, "tree"), filepath.Join(dir, "copy")
	must(t, os.Mkdir(copied, 0o700))
	at := tree
	for i := range maxOpen + 20 {
		for _, side := range []string{"a", "z"} {
			must(t, os.MkdirAll(filepath.Join(at, side, "below"), 0o700))
			must(t, os.WriteFile(filepath.Join(at, side, "below", "f"), fmt.Append(nil, i), 0o600))
		}
		at = filepath.Join(at, "d")
	}
	did, err := Copy(t.Context(), rootAt(t, tree), rootAt(t, copied))
	if err != nil || did.Files != 2*(maxOpen+20) {
		t.Fatalf("copied were %+v: %v", did, err)
	}
	must(t, filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(tree, path)
		want, err := os.ReadFile(path)
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(copied, rel)); string(got) != string(want) {
			t.Errorf("%s is %q, want %q: %v", rel, got, want, err)
		}
		return nil
	}))
}

func TestAWideTreeIsDeleted(t *testing.T) {
	dir := t.TempDir()
	at := rootAt(t, dir)
	for i := range batch + 20 {
		name := fmt.Sprintf("tree/%d", i)
		must(t, os.MkdirAll(filepath.Join(dir, name, "sub", "sub"), 0o700))
		must(t, at.WriteFile(name+"/sub/file", nil, 0o600))
	}
	if n, err := Remove(t.Context(), at, "tree"); n != batch+20 || err != nil || len(entriesOf(t, dir)) != 0 {
		t.Errorf("%d were deleted: %v", n, err)
	}
}

// inside names the directory of a test that runs once more, as a user whom rights bind.
const inside = "TREE_TEST_INSIDE"

// TestRightsOfDirectoriesKeepNothing: a program has taken the rights to its directories from everybody.
func TestRightsOfDirectoriesKeepNothing(t *testing.T) {
	dir := os.Getenv(inside)
	if dir == "" {
		top, err := os.MkdirTemp("/tmp", "tree")
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(top) })
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+top)
		cmd.Dir = "/"
		if os.Getuid() == 0 {
			must(t, os.Chown(top, 54321, 54321))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	shut := filepath.Join(dir, "tree", "a", "b")
	must(t, os.MkdirAll(filepath.Join(shut, "c", "d"), 0o700))
	must(t, os.WriteFile(filepath.Join(shut, "c", "file"), nil, 0o400))
	for _, path := range []string{"c/d", "c", "", "..", "../.."} {
		must(t, os.Chmod(filepath.Join(shut, path), 0o000|fs.FileMode(len(path)%2)*0o500))
	}
	if n, err := Remove(t.Context(), rootAt(t, dir), "tree"); n != 1 || err != nil || len(entriesOf(t, dir)) != 0 {
		t.Errorf("%d were deleted: %v", n, err)
	}
}

func TestATreeIsCopiedWithAnyNamesAndWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	tree, copied := filepath.Join(dir, "tree"), filepath.Join(dir, "copy")
	must(t, errors.Join(os.Mkdir(tree, 0o700), os.Mkdir(copied, 0o700)))
	must(t, os.WriteFile(filepath.Join(dir, "theirs"), []byte("of others"), 0o600))
	files := fill(t, tree)
	must(t, os.Symlink("../theirs", filepath.Join(tree, "file")))
	must(t, os.Symlink("..", filepath.Join(tree, odd[0], "up")))
	must(t, syscall.Mkfifo(filepath.Join(tree, "fifo"), 0o600))
	did, err := Copy(t.Context(), rootAt(t, tree), rootAt(t, copied))
	if err != nil || did != (Copied{files, 3}) {
		t.Fatalf("copied were %+v, want %d files: %v", did, files, err)
	}
	for _, name := range odd {
		text, err := os.ReadFile(filepath.Join(copied, name, name))
		if string(text) != "below "+name {
			t.Errorf("%q is %q: %v", name, text, err)
		}
	}
}

func TestACopyEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	must(t, errors.Join(os.MkdirAll(filepath.Join(dir, "tree", "a"), 0o700),
		os.Mkdir(filepath.Join(dir, "copy"), 0o700)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Copy(ctx, rootAt(t, filepath.Join(dir, "tree")), rootAt(t, filepath.Join(dir, "copy")))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestADirectoryIsMadeWholeOrNotAtAll(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new", "out")
	write := func(at *os.Root) error {
		if _, err := os.Lstat(dir); err == nil {
			t.Error("it is there before it is whole")
		}
		return Write(at, "a", func(w io.Writer) error {
			_, err := io.WriteString(w, "whole")
			return err
		})
	}
	broken := errors.New("no more")
	if err := Make(t.Context(), dir, func(at *os.Root) error { return errors.Join(write(at), broken) }); !errors.Is(err,
		broken) || len(entriesOf(t, filepath.Dir(dir))) != 0 {
		t.Fatalf("%v leaves %q", err, entriesOf(t, filepath.Dir(dir)))
	}
	must(t, Make(t.Context(), dir, write))
	text, err := os.ReadFile(filepath.Join(dir, "a"))
	if string(text) != "whole" || !slices.Equal(entriesOf(t, filepath.Dir(dir)), []string{"out"}) {
		t.Errorf("it has %q: %v", text, err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can read it: %v %v", info.Mode(), err)
	}
}

func TestAPlaceThatIsTakenIsRefusedAndKeepsWhatItHas(t *testing.T) {
	parent := t.TempDir()
	must(t, os.Mkdir(filepath.Join(parent, "empty"), 0o700))
	must(t, os.WriteFile(filepath.Join(parent, "file"), []byte("old"), 0o600))
	must(t, os.Symlink("nowhere", filepath.Join(parent, "link")))
	for _, name := range []string{"empty", "file", "link"} {
		err := Make(t.Context(), filepath.Join(parent, name), func(*os.Root) error {
			t.Errorf("%s was begun", name)
			return nil
		})
		if !errors.Is(err, fs.ErrExist) || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	late := filepath.Join(parent, "late")
	come := func(*os.Root) error { return os.Mkdir(late, 0o700) }
	if err := Make(t.Context(), late, come); !errors.Is(err, fs.ErrExist) {
		t.Errorf("what came meanwhile: %v", err)
	}
	if got := entriesOf(t, parent); !slices.Equal(got, []string{"empty", "file", "late", "link"}) {
		t.Errorf("there are %q", got)
	}
}

func TestWhatAKilledProcessLeftIsDeletedAndARunningOneIsNot(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	left := filepath.Join(parent, ".out.part", "files")
	must(t, os.MkdirAll(left, 0o700))
	must(t, os.WriteFile(filepath.Join(left, "old"), nil, 0o600))
	must(t, Make(t.Context(), dir, func(at *os.Root) error {
		err := Make(t.Context(), dir, func(*os.Root) error { return nil })
		if !errors.Is(err, syscall.EWOULDBLOCK) || corebot.HintOf(err) == "" {
			t.Errorf("a second one at a time: %v", err)
		}
		return at.WriteFile("new", nil, 0o600)
	}))
	if got := entriesOf(t, dir); !slices.Equal(got, []string{"new"}) {
		t.Errorf("it has %q", got)
	}
}
