package rootfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

func open(t *testing.T) (*rootfs.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := rootfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func requireIs(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func TestADirectoryThatCannotBeOpenedIsAnErrorWithAHint(t *testing.T) {
	_, err := rootfs.New(filepath.Join(t.TempDir(), "missing"))
	requireIs(t, "open", err, fs.ErrNotExist)
	if corebot.HintOf(err) == "" {
		t.Error("the error has no hint")
	}
}

func TestWhatWasWrittenIsReadBack(t *testing.T) {
	root, dir := open(t)
	if err := root.Write("a/b/c.txt", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	got, err := root.ReadFile("./a//b/c.txt", 5)
	if err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
	for path, want := range map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "a/b/c.txt": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v (%v)", path, info.Mode().Perm(), want, err)
		}
	}
}

func TestAReadNeverReturnsMoreThanItsCap(t *testing.T) {
	root, dir := open(t)
	put(t, filepath.Join(dir, "f"), "0123456789")
	_, err := root.ReadFile("f", 9)
	requireIs(t, "a file over the cap", err, rootfs.ErrTooLarge)
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 4, "0123"}, {8, 4, "89"}, {10, 4, ""}, {99, 4, ""}} {
		got, err := root.ReadChunk("f", c.offset, c.limit)
		if err != nil || string(got.Data) != c.want || got.Size != 10 {
			t.Errorf("chunk %d+%d: got %q of %d, %v; want %q", c.offset, c.limit, got.Data, got.Size, err, c.want)
		}
	}
	for _, c := range [][2]int64{{-1, 4}, {0, 0}, {0, -1}} {
		if _, err := root.ReadChunk("f", c[0], c[1]); err == nil {
			t.Errorf("chunk %d+%d was read", c[0], c[1])
		}
	}
}

func TestEveryOperationRefusesWhatIsNotAPlainFile(t *testing.T) {
	root, dir := open(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	outside := filepath.Join(t.TempDir(), "secret")
	put(t, outside, "secret")
	put(t, at("real/f"), "inside")
	put(t, at("twice"), "linked")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink(outside, at("out")))
	must(os.Symlink("real/f", at("in")))
	must(os.Symlink("real", at("dirlink")))
	must(os.Symlink(filepath.Dir(outside), at("outdir")))
	must(os.Symlink("nowhere", at("dangling")))
	must(os.Link(at("twice"), at("twice2")))
	must(syscall.Mkfifo(at("fifo"), 0o600))
	l, err := net.Listen("unix", at("sock"))
	must(err)
	defer l.Close()

	for path, want := range map[string]error{
		"out": rootfs.ErrEscape, "in": rootfs.ErrEscape, "dangling": rootfs.ErrEscape, "dirlink/f": rootfs.ErrEscape,
		"outdir/secret": rootfs.ErrEscape, "twice": rootfs.ErrNotRegular, "fifo": rootfs.ErrNotRegular,
		"sock": rootfs.ErrNotRegular,
		"real": rootfs.ErrNotRegular, "fifo/x": rootfs.ErrNotDir, "real/f/x": rootfs.ErrNotDir,
	} {
		_, err := root.ReadFile(path, 100)
		requireIs(t, "read "+path, err, want)
		requireIs(t, "write "+path, root.Write(path, []byte("x")), want)
		requireIs(t, "remove "+path, root.Remove(path), want)
	}
	for _, dir := range []string{"dirlink", "outdir"} {
		_, _, err = root.List(dir, "", 10)
		requireIs(t, "list "+dir, err, rootfs.ErrEscape)
	}
	_, err = root.ReadFile("real/missing", 100)
	requireIs(t, "read what is missing", err, fs.ErrNotExist)
	if got, err := os.ReadFile(outside); err != nil || string(got) != "secret" {
		t.Errorf("the file outside is now %q, %v", got, err)
	}
}

func TestALinkThatIsSwappedInIsNeverFollowed(t *testing.T) {
	root, dir := open(t)
	put(t, filepath.Join(dir, "chats/a/f"), "mine")
	put(t, filepath.Join(dir, "chats/b/f"), "theirs")
	link, mine, spot := filepath.Join(dir, "link"), filepath.Join(dir, "chats/a"), filepath.Join(dir, "spot")
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Symlink("chats/b", link)
			_ = os.Rename(link, spot)
			_ = os.Remove(spot)
			_ = os.Rename(mine, spot)
			_ = os.Rename(spot, mine)
		}
	})
	for range 2000 {
		if got, err := root.ReadFile("spot/f", 100); err == nil && string(got) != "mine" {
			t.Errorf("read %q through a link", got)
			break
		}
	}
	close(stop)
	swapper.Wait()
}

func TestAWriteThatFailsLeavesTheOldFileAndNoLitter(t *testing.T) {
	root, dir := open(t)
	put(t, filepath.Join(dir, "f"), "old")
	boom := errors.New("boom")
	err := root.Update("f", 100, func([]byte, bool) ([]byte, error) { return []byte("new"), boom })
	requireIs(t, "update", err, boom)
	if err := root.Write("d/"+strings.Repeat("x", 256), nil); err == nil {
		t.Error("a name that is too long was written")
	}
	got, err := root.ReadFile("f", 100)
	if err != nil || string(got) != "old" {
		t.Errorf("got %q, %v", got, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	root, _ := open(t)
	if err := root.Create("d/f", []byte("first")); err != nil {
		t.Fatal(err)
	}
	requireIs(t, "create again", root.Create("d/f", []byte("second")), fs.ErrExist)
	if got, _ := root.ReadFile("d/f", 100); string(got) != "first" {
		t.Errorf("got %q", got)
	}
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	root, _ := open(t)
	var wg sync.WaitGroup
	for i := range 20 {
		path := []string{"n", ".//n", "./n"}[i%3]
		wg.Go(func() {
			err := root.Update(path, 100, func(old []byte, exists bool) ([]byte, error) {
				n, _ := strconv.Atoi(string(old))
				if exists != (n > 0) {
					t.Errorf("exists is %v at %d", exists, n)
				}
				return []byte(strconv.Itoa(n + 1)), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, _ := root.ReadFile("n", 100); string(got) != "20" {
		t.Errorf("got %q, want 20", got)
	}
}

// TestAReadSeesTheOldFileOrTheNewOneWhileOthersWrite puts files in place as a write does, but syncs none.
func TestAReadSeesTheOldFileOrTheNewOneWhileOthersWrite(t *testing.T) {
	root, dir := open(t)
	file, next := filepath.Join(dir, "d/f"), filepath.Join(dir, "d/next")
	put(t, file, "text 0")
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(done)
		for i := range 150 {
			err := os.WriteFile(next, fmt.Append(nil, "text ", i), 0o600)
			if err := errors.Join(err, os.Rename(next, file)); err != nil {
				t.Error(err)
			}
		}
	})
	defer writer.Wait()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got, err := root.ReadFile("d/f", 100)
		_, hashErr := root.Hash("d/f", 100)
		if err != nil || hashErr != nil || !strings.HasPrefix(string(got), "text ") {
			t.Fatalf("got %q, %v, %v", got, err, hashErr)
		}
	}
}

func TestAListingIsSortedCappedAndFreeOfWhatIsNoFile(t *testing.T) {
	root, dir := open(t)
	for _, n := range []string{"b", "a/x", "c", ".corebot-tmp-ABC", "new\nline", "back\\slash"} {
		put(t, filepath.Join(dir, n), "12")
	}
	if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got, more, err := root.List(".", "", 10)
	if err != nil || more != 0 || len(got) != 3 || got[0].Name != "a" || !got[0].Dir || got[1].Name != "b" ||
		got[1].Size != 2 || got[2].Name != "c" {
		t.Errorf("got %+v, %v, %v", got, more, err)
	}
	got, more, err = root.List(".", "", 2)
	if err != nil || more != 1 || len(got) != 2 || got[1].Name != "b" {
		t.Errorf("with a cap of 2: got %+v, %v, %v", got, more, err)
	}
	got, more, err = root.List(".", "b", 2)
	if err != nil || more != 0 || len(got) != 1 || got[0].Name != "c" {
		t.Errorf("behind b: got %+v, %v, %v", got, more, err)
	}
	_, _, err = root.List("b", "", 2)
	requireIs(t, "list a file", err, rootfs.ErrNotDir)
}

func TestAFileThatIsReadOnlyStaysAsItIs(t *testing.T) {
	root, dir := open(t)
	put(t, filepath.Join(dir, "f"), "12")
	if err := os.Chmod(filepath.Join(dir, "f"), 0o400); err != nil {
		t.Fatal(err)
	}
	requireIs(t, "write", root.Write("f", []byte("x")), fs.ErrPermission)
	requireIs(t, "remove", root.Remove("f"), fs.ErrPermission)
	requireIs(t, "update", root.Update("f", 10, func([]byte, bool) ([]byte, error) { return nil, nil }),
		fs.ErrPermission)
	if got, err := root.ReadFile("f", 10); err != nil || string(got) != "12" {
		t.Errorf("it holds %q, %v", got, err)
	}
}

func TestASweepTakesOldTemporaryFilesOnly(t *testing.T) {
	root, dir := open(t)
	for _, n := range []string{"d/.corebot-tmp-OLD", "d/.corebot-tmp-NEW", "d/keep"} {
		put(t, filepath.Join(dir, n), "x")
	}
	long := time.Now().Add(-time.Hour)
	for _, n := range []string{"d/.corebot-tmp-OLD", "d/keep"} {
		if err := os.Chtimes(filepath.Join(dir, n), long, long); err != nil {
			t.Fatal(err)
		}
	}
	n, err := root.Sweep(time.Now().Add(-time.Minute))
	if err != nil || n != 1 {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	left, _ := os.ReadDir(filepath.Join(dir, "d"))
	if len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}
