package rootfs_test

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/rootfs"
)

var (
	races = flag.Int("files.races", 3_000,
		"reads and writes while what they go through is exchanged; the long form is 200000")
	entries = long.Int("files.entries", 2_000, 20_000, "files in one directory; 200000 are many")
)

// soon is how long anything may take, whatever it meets, on a machine that is busy with other tests. What hangs takes
// longer.
const soon = 10 * time.Second

// fort is a workspace inside a directory whose other files nobody may read or write through it.
type fort struct {
	*testing.T
	*rootfs.Root
	dir, outside string
}

// secret is in every file outside. The content of a file inside begins with inner.
const secret, inner = "SECRET OF THE OPERATOR", "inside"

func newFort(t *testing.T) fort {
	t.Helper()
	top := t.TempDir()
	f := fort{T: t, dir: filepath.Join(top, "workspace"), outside: filepath.Join(top, "outside")}
	for _, name := range []string{"corebot.yaml", ".mcp.json", "data/corebot.db", "outside/f", "outside/d/f"} {
		put(t, filepath.Join(top, name), secret)
	}
	put(t, filepath.Join(f.dir, "f"), inner)
	put(t, filepath.Join(f.dir, "d/f"), inner)
	root, err := rootfs.New(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Root = root
	t.Cleanup(func() {
		root.Close()
		f.requireUntouched(top)
	})
	return f
}

// requireUntouched: what is outside holds what it held, and nothing has come to it.
func (f fort) requireUntouched(top string) {
	f.Helper()
	n := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == f.dir:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		n++
		if data, err := os.ReadFile(path); err != nil || string(data) != secret {
			f.Errorf("%s holds %q, %v", path, data, err)
		}
		return nil
	})
	if err != nil || n != 5 {
		f.Errorf("outside are %d files, %v; want 5", n, err)
	}
}

// attack reads and lists by a path, and with change it writes, creates, updates and removes too. Nothing that it gets
// is from outside, and nothing takes long.
func (f fort) attack(path string, change bool) {
	f.Helper()
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > soon {
			f.Errorf("%.80q took %v", path, took)
		}
	}()
	if data, err := f.ReadFile(path, 1<<10); err == nil && strings.Contains(string(data), "SECRET") {
		f.Errorf("ReadFile(%q) gives %q", path, data)
	}
	if c, err := f.ReadChunk(path, 1, 1<<10); err == nil && strings.Contains(string(c.Data), "ECRET") {
		f.Errorf("ReadChunk(%q) gives %q", path, c.Data)
	}
	if found, _, err := f.List(path, "", 10); err == nil {
		for _, e := range found {
			if e.Size == int64(len(secret)) {
				f.Errorf("List(%q) shows %+v", path, e)
			}
		}
	}
	_, _ = f.Hash(path, 1<<10)
	if !change {
		return
	}
	_ = f.Write(path, []byte(inner))
	_ = f.Create(path+"x", []byte(inner))
	_ = f.Update(path, 1<<10, func(old []byte, _ bool) ([]byte, error) {
		if strings.Contains(string(old), "SECRET") {
			f.Errorf("Update(%q) is given %q", path, old)
		}
		return []byte(inner), nil
	})
	_ = f.Remove(path)
}

func TestNoSpellingOfAPathLeadsOut(t *testing.T) {
	f := newFort(t)
	for i, spelling := range spellings() {
		_, err := rootfs.Clean(spelling)
		f.attack(spelling, err != nil || i%200 == 0) // what is refused costs nothing, what is a path costs a sync
	}
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"..", ".", "/", "//", "\\", "outside", "corebot.yaml", "%2e%2e", "%2f", "..;", "…", "\x00",
		"\u202e", "．．", "／", "d", "f", "~", "C:", "\xff", " ", "..\\",
	}
	for i := range 1_000 {
		var path strings.Builder
		for range 1 + r.IntN(8) {
			path.WriteString(pieces[r.IntN(len(pieces))])
		}
		_, err := rootfs.Clean(path.String())
		f.attack(path.String(), err != nil || i%200 == 0)
	}
}

// spellings are ways to write a path that should lead to the operator's files, for whoever reads paths more kindly than
// it should.
func spellings() []string {
	ups := []string{
		"..", "%2e%2e", "%252e%252e", "..%00", "..%c0%af", "%c0%ae%c0%ae", "..;", ". .", " ..", ".. ", "..\t",
		"\u202e..", "..\u200b", "．．", "‥", "…", "\uff0e\uff0e", "..\x00", "...", "....", "..\\", "..\r", ".\u0000.",
		".\u00ad.",
	}
	separators := []string{
		"/", "//", "\\", "%2f", "%5c", "%252f", "%c0%af", "\u2215", "\u2044", "\uff0f", "/./", "\\/",
		"/\x00/", ":",
	}
	targets := []string{"corebot.yaml", ".mcp.json", "data/corebot.db", "outside/f", "outside"}
	var all []string
	for _, up := range ups {
		for _, sep := range separators {
			for _, target := range targets {
				all = append(all, up+sep+target, "d"+sep+up+sep+up+sep+target, "./"+up+sep+target, "d/"+up+sep+target)
			}
		}
	}
	return append(all,
		"/etc/passwd", "//etc/passwd", "\\etc\\passwd", "C:\\x", "C:x", "\\\\host\\share", "file:///etc/passwd",
		"~/.ssh/id_rsa", "~root", "$HOME/x", "${HOME}", "`id`", "$(id)",
		"/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd/../corebot.yaml", "/dev/zero", "/dev/stdin",
		"/dev/fd/0", "", ".", "./", "..", "../", "../..", "d/..", "d/../..",
		"-", "--", "-rf", "*", "?", "[a]", "f\n", "f\x00.txt", "f:stream", "NUL", "CON", "aux.txt", "f.", "f ",
		"\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "\U000e0041", strings.Repeat("a", 256),
		strings.Repeat("../", 1300)+"etc/passwd", strings.Repeat("a/", 2_000)+"f", strings.Repeat("d/", 30)+"f",
		strings.Repeat("/", 4_000)+"f", strings.Repeat("./", 2_000)+"f")
}

// exchange puts one thing after the other in the place of a name, until it is told to stop.
func (f fort) exchange(spot string, with ...func(at string)) (stop func()) {
	done := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		at := filepath.Join(f.dir, spot)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			next := at + "-next"
			_ = os.RemoveAll(next)
			with[i%len(with)](next)
			if os.Rename(next, at) != nil { // a directory does not give way to a file
				_ = os.RemoveAll(at)
				_ = os.Rename(next, at)
			}
			time.Sleep(time.Duration(i%3) * 20 * time.Microsecond) // some reads are to find it as it is
		}
	})
	return func() { close(done); busy.Wait() }
}

func TestWhatIsExchangedMeanwhileNeverLeadsOut(t *testing.T) {
	f := newFort(t)
	link := func(to string) func(string) { return func(at string) { _ = os.Symlink(to, at) } }
	file := func(at string) { _ = os.WriteFile(at, []byte(inner), 0o600) }
	dir := func(at string) {
		_ = os.MkdirAll(at, 0o700)
		_ = os.WriteFile(filepath.Join(at, "f"), []byte(inner), 0o600)
	}
	fifo := func(at string) { _ = syscall.Mkfifo(at, 0o600) }
	hard := func(at string) { _ = os.Link(filepath.Join(f.outside, "f"), at) }
	stopFile := f.exchange("spot", file, link("../outside/f"), file, hard, file, link(f.outside+"/f"), file, fifo, file,
		link("/dev/zero"), dir)
	stopDir := f.exchange("place", dir, link("../outside"), link(f.outside+"/d"), file, dir, link(".."))
	seen := 0
	for i := range *races {
		path := []string{"spot", "place/f", "place/d/f", "place/outside/f"}[i%4]
		data, err := f.ReadFile(path, 1<<10)
		if err == nil && len(data) > 0 {
			seen++
			if !strings.HasPrefix(string(data), inner) {
				t.Fatalf("read %d of %s gives %q", i, path, data)
			}
		}
		if i%100 == 0 {
			_ = f.Remove([]string{"spot", "place/f"}[i%2])
		}
		if i%5 == 0 {
			_ = f.Write(path, []byte(inner))
			_ = f.Update(path, 1<<10, func([]byte, bool) ([]byte, error) { return []byte(inner), nil })
			_ = f.Create(fmt.Sprintf("place/new%d", i%7), []byte(inner))
			_, _, _ = f.List("place", "", 10)
		}
	}
	stopDir()
	stopFile()
	if seen == 0 {
		t.Error("nothing was ever read: the test is broken")
	}
	t.Logf("%d of %d reads found a file", seen, *races)
}

// These are the system's own devices, since only root may make one. A FIFO shows that a special file is not written
// over either.
func TestADeviceIsNoFile(t *testing.T) {
	devices, err := rootfs.New("/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	_, err = devices.ReadFile("zero", 100)
	requireIs(t, "read a device", err, rootfs.ErrNotRegular)
}

func TestASparseGiantIsReadInPiecesAndNeverWhole(t *testing.T) {
	f := newFort(t)
	const size = 1 << 40
	giant, err := os.Create(filepath.Join(f.dir, "giant"))
	if err != nil {
		t.Fatal(err)
	}
	if err := giant.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := giant.WriteAt([]byte("end"), size-3); err != nil {
		t.Fatal(err)
	}
	giant.Close()
	began := time.Now()
	_, err = f.ReadFile("giant", 1<<20)
	requireIs(t, "read it whole", err, rootfs.ErrTooLarge)
	_, err = f.Hash("giant", 1<<20)
	requireIs(t, "hash it", err, rootfs.ErrTooLarge)
	requireIs(t, "update it", f.Update("giant", 1<<20, func([]byte, bool) ([]byte, error) { return nil, nil }),
		rootfs.ErrTooLarge)
	if c, err := f.ReadChunk("giant", size-10, 100); err != nil || string(c.Data) != strings.Repeat("\x00", 7)+"end" ||
		c.Size != size {
		t.Errorf("its end is %q of %d, %v", c.Data, c.Size, err)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
}

func TestADirectoryWithManyEntriesIsListedInPages(t *testing.T) {
	f := newFort(t)
	dir := filepath.Join(f.dir, "many")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range entries() {
		name, err := os.Create(filepath.Join(dir, fmt.Sprintf("%06d", i)))
		if err != nil {
			t.Fatal(err)
		}
		name.Close()
	}
	began := time.Now()
	found, more, err := f.List("many", fmt.Sprintf("%06d", entries()/2-1), 500)
	took := time.Since(began)
	if err != nil || len(found) != 500 || found[0].Name != fmt.Sprintf("%06d", entries()/2) ||
		more != entries()-entries()/2-500 {
		t.Errorf("%d entries and %d more, %v", len(found), more, err)
	}
	if took > soon {
		t.Errorf("it took %v", took)
	}
	t.Logf("a page of %d entries took %v", entries(), took)
}

func TestNamesThatNoPathCanHaveAreLeftAlone(t *testing.T) {
	f := newFort(t)
	odd := []string{
		"new\nline", "back\\slash", "\xff\xfe", "esc\x1b[2J", "bidi\u202e", "zero\u200bwidth",
		".corebot-tmp-x", "\u2028", "tag\U000e0041",
	}
	for _, name := range odd {
		put(t, filepath.Join(f.dir, "odd", name), inner)
	}
	put(t, filepath.Join(f.dir, "odd/-rf"), inner)
	found, _, err := f.List("odd", "", 100)
	var names []string
	for _, e := range found {
		names = append(names, e.Name)
	}
	if err != nil || strings.Join(names, " ") != "-rf \u2028" && strings.Join(names, " ") != "-rf" {
		t.Errorf("listed are %q, %v", names, err)
	}
	for _, name := range odd[:7] {
		if _, err := f.ReadFile("odd/"+name, 100); err == nil {
			t.Errorf("%q was read", name)
		}
	}
}
