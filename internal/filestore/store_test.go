package filestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/corebot/corebot"
)

// memory are references in memory. The real ones are tested in storage.
type memory struct {
	mu   sync.Mutex
	refs []corebot.AttachedFile
	err  error
}

func (m *memory) Refer(_ context.Context, f corebot.AttachedFile, chatBytes int64) (corebot.AttachedFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Size > chatBytes && f.Fault == "" {
		f.Fault = "no room in the chat"
	}
	if m.err == nil {
		m.refs = append(m.refs, f)
	}
	return f, m.err
}

func (m *memory) File(_ context.Context, k corebot.Key, hash string) (corebot.AttachedFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := corebot.AttachedFile{Fault: "none"}
	for _, f := range m.refs {
		if f.Key == k && f.Hash == hash && found.Fault != "" {
			found = f
		}
	}
	if found.Hash == "" {
		return found, corebot.ErrNotFound
	}
	return found, nil
}

func (m *memory) Referred(_ context.Context, hash string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.refs {
		if f.Hash == hash && f.Fault == "" {
			return true, nil
		}
	}
	return false, nil
}

func (m *memory) Contents(_ context.Context, after string, _ int) (all []corebot.AttachedFile, err error) {
	for _, f := range m.refs {
		if f.Hash > after && f.Fault == "" {
			all = append(all, f)
		}
	}
	return all, nil
}

func chat(name string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "webhook", Account: "default", Chat: name}
}

func newStore(t *testing.T, o Options) (*Store, *memory) {
	t.Helper()
	for _, limit := range []*int64{&o.FileBytes, &o.ChatBytes, &o.TotalBytes} {
		if *limit == 0 {
			*limit = 1 << 20
		}
	}
	refs := &memory{}
	return New(filepath.Join(t.TempDir(), "data", "files"), refs, o), refs
}

func keep(t *testing.T, s *Store, k corebot.Key, text string) corebot.AttachedFile {
	t.Helper()
	p := corebot.Part{Type: corebot.PartFile, Name: "a.txt"}
	_, f, err := s.Keep(t.Context(), k, "m", p, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// onDisk are the names and the rights of all files of a store.
func onDisk(t *testing.T, s *Store) (all []string) {
	t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			all = append(all, d.Name())
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the rights %v", path, info.Mode())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func TestAContentIsKeptOnceAndOpensOnlyForTheChatsThatWereGivenIt(t *testing.T) {
	s, _ := newStore(t, Options{})
	a := keep(t, s, chat("a"), "hello")
	for range 1_000 {
		keep(t, s, chat("b"), "hello")
	}
	sum := sha256.Sum256([]byte("hello"))
	if got := onDisk(t, s); len(got) != 1 || got[0] != hex.EncodeToString(sum[:]) || got[0] != a.Hash || s.total != 5 {
		t.Fatalf("on disk are %v, counted are %d bytes", got, s.total)
	}
	f, ref, err := s.Open(t.Context(), chat("b"), a.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); string(text) != "hello" || err != nil || ref.Size != 5 {
		t.Errorf("%q, %v, %+v", text, err, ref)
	}
	_ = f.Close()
	for _, hash := range []string{a.Hash, strings.Repeat("0", 64), "../../corebot.db", strings.ToUpper(a.Hash), ""} {
		if _, _, err := s.Open(t.Context(), chat("c"), hash); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("chat c gets %q: %v", hash, err)
		}
	}
}

func TestWhatIsOverALimitIsRefusedOrHasAReferenceThatSaysWhy(t *testing.T) {
	s, _ := newStore(t, Options{FileBytes: 10, ChatBytes: 8, TotalBytes: 12})
	_, _, err := s.Keep(t.Context(), chat("a"), "m", corebot.Part{}, strings.NewReader("eleven byte"))
	if !errors.Is(err, corebot.ErrTooLarge) {
		t.Errorf("a file that is too large: %v", err)
	}
	if f := keep(t, s, chat("a"), "nine byte"); f.Fault == "" || len(onDisk(t, s)) > 0 {
		t.Error("the chat has no limit")
	}
	keep(t, s, chat("a"), "eight by")
	// Another chat is told the same of a content that is here as of one that is not.
	here, new := keep(t, s, chat("b"), "eight by"), keep(t, s, chat("b"), "EIGHT BY")
	if here.Fault == "" || here.Fault != new.Fault {
		t.Errorf("here %q, new %q", here.Fault, new.Fault)
	}
	if f := keep(t, s, chat("a"), "eight by"); f.Fault != "" {
		t.Errorf("its own content takes room again: %q", f.Fault)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, partPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestAContentThatIsCutOffLeavesNothing(t *testing.T) {
	s, refs := newStore(t, Options{})
	cut := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, _, err := s.Keep(t.Context(), chat("a"), "m", corebot.Part{}, cut)
	if source := (*SourceError)(nil); !errors.As(err, &source) {
		t.Errorf("%v", err)
	}
	if got := onDisk(t, s); len(got) > 0 || len(refs.refs) > 0 {
		t.Errorf("it left %v and %v", got, refs.refs)
	}
}

// A caller that knows the content names it, such as the one that an admin has seen.
func TestAnotherContentThanTheNamedOneIsNotKept(t *testing.T) {
	s, refs := newStore(t, Options{})
	seen := keep(t, s, chat("a"), "seen")
	p := corebot.Part{Type: corebot.PartFile, Name: "x", Hash: seen.Hash}
	_, _, err := s.Keep(t.Context(), chat("b"), "m", p, strings.NewReader("other"))
	if !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("another content: %v", err)
	}
	if len(refs.refs) != 1 || len(onDisk(t, s)) != 1 {
		t.Errorf("there are %+v and %v", refs.refs, onDisk(t, s))
	}
	if _, _, err := s.Keep(t.Context(), chat("b"), "m", p, strings.NewReader("seen")); err != nil {
		t.Errorf("the named content: %v", err)
	}
}

func TestUnderTheFloorOfTheDiskNothingIsWritten(t *testing.T) {
	s, _ := newStore(t, Options{Low: func() string { return "the disk is low" }})
	_, _, err := s.Keep(t.Context(), chat("a"), "m", corebot.Part{}, strings.NewReader("x"))
	if !errors.Is(err, corebot.ErrDiskFull) || len(onDisk(t, s)) > 0 {
		t.Error(err)
	}
}

func age(t *testing.T, path string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestASweepRemovesWhatNothingRefersToOnceItWasSeenSoForLong(t *testing.T) {
	s, refs := newStore(t, Options{})
	kept, gone := keep(t, s, chat("a"), "kept"), keep(t, s, chat("a"), "gone")
	refs.refs = refs.refs[:1]
	part := filepath.Join(s.dir, partPrefix+"1")
	for _, path := range []string{part, filepath.Join(s.dir, partPrefix+"2")} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age(t, part, 2*time.Hour)
	age(t, s.path(gone.Hash), 48*time.Hour)
	age(t, s.path(kept.Hash), 48*time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, s); len(got) != 3 { // a backup may be about to copy what has just lost its reference
		t.Fatalf("after the first sweep %v", got)
	}
	s.orphans[gone.Hash] = time.Now().Add(-Grace)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, s); len(got) != 2 || strings.Contains(strings.Join(got, " "), gone.Hash) || s.total != 4 {
		t.Errorf("after the second sweep %v, %d bytes", got, s.total)
	}
}

func TestTheFilesOfADeletedChatGoAtOnceUnlessAnotherChatHasThem(t *testing.T) {
	s, refs := newStore(t, Options{})
	own, shared := keep(t, s, chat("a"), "own"), keep(t, s, chat("a"), "shared")
	keep(t, s, chat("b"), "shared")
	refs.refs = refs.refs[2:]
	if err := s.Release(t.Context(), []string{own.Hash, shared.Hash, "../x"}); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, s); len(got) != 1 || got[0] != shared.Hash {
		t.Errorf("on disk are %v", got)
	}
}

// A content comes again while its bytes wait for a sweep.
// A content that another chat still had once is not swept earlier when that chat loses it, too.
func TestTheTimeOfAContentBeginsWhenItsLastReferenceGoes(t *testing.T) {
	s, refs := newStore(t, Options{})
	shared := keep(t, s, chat("a"), "shared")
	keep(t, s, chat("b"), "shared")
	refs.refs = refs.refs[1:]
	if err := s.Release(t.Context(), []string{shared.Hash}); err != nil {
		t.Fatal(err)
	}
	if len(s.orphans) != 0 {
		t.Errorf("noted although a chat has it: %v", s.orphans)
	}
	s.orphans[shared.Hash] = time.Now().Add(-48 * time.Hour) // a sweep between its name and its reference
	age(t, s.path(shared.Hash), 48*time.Hour)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	refs.refs = nil
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, s); len(got) != 1 {
		t.Errorf("on disk right after the last reference went: %v", got)
	}
}

func TestAContentThatComesAgainIsNotSwept(t *testing.T) {
	s, refs := newStore(t, Options{})
	f := keep(t, s, chat("a"), "again")
	refs.refs = nil
	age(t, s.path(f.Hash), 48*time.Hour)
	s.orphans[f.Hash] = time.Now().Add(-48 * time.Hour)
	refs.err = errors.New("not yet") // the bytes have their name, and the reference is on its way
	if _, _, err := s.Keep(t.Context(), chat("a"), "m", corebot.Part{}, strings.NewReader("again")); err == nil {
		t.Fatal("the reference was stored")
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := onDisk(t, s); len(got) != 1 {
		t.Errorf("on disk are %v", got)
	}
}

func TestACheckFindsFilesThatAreMissingOrDamaged(t *testing.T) {
	s, refs := newStore(t, Options{})
	keep(t, s, chat("a"), "fine")
	missing, cut := keep(t, s, chat("a"), "missing"), keep(t, s, chat("a"), "cut off")
	other := keep(t, s, chat("a"), "other")
	_ = os.Remove(s.path(missing.Hash))
	_ = os.Truncate(s.path(cut.Hash), 2)
	_ = os.WriteFile(s.path(other.Hash), []byte("OTHER"), 0o600)
	found, err := Problems(t.Context(), s.dir, refs)
	all := strings.Join(found, "\n")
	if err != nil || len(found) != 3 || !strings.Contains(all, missing.Hash+" is missing") ||
		!strings.Contains(all, "has 2 bytes, and had 7") || !strings.Contains(all, other.Hash+" is damaged") {
		t.Errorf("%v\n%s", err, all)
	}
}

// pngOf is the beginning of an image with a size.
func pngOf(w, h uint32) string {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), w), h)
	head = append(head, 8, 2, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return string(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head)))
}

func TestTheTypeIsThatOfTheBytes(t *testing.T) {
	const (
		ogg  = "OggS\x00\x02"
		webp = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88"
	)
	const mp4 = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
	for name, c := range map[string]struct {
		content, file, declared string
		kind                    corebot.PartType
		media                   string
	}{
		"an image":                {pngOf(4, 4), "a.png", "", corebot.PartImage, "image/png"},
		"an image that lies":      {pngOf(4, 4), "a.exe", "text/html", corebot.PartImage, "image/png"},
		"an image bomb":           {pngOf(60_000, 60_000), "a.png", "image/png", corebot.PartFile, unknown},
		"an image without a size": {pngOf(0, 7), "a.png", "image/png", corebot.PartFile, unknown},
		"an image that is cut":    {pngOf(4, 4)[:20], "a.png", "image/png", corebot.PartFile, unknown},
		"a bitmap":                {"BM" + strings.Repeat("x", 40), "a.bmp", "image/bmp", corebot.PartFile, unknown},
		"webp":                    {webp + strings.Repeat("\x00", 20), "", "", corebot.PartImage, "image/webp"},
		"a page":                  {"<html><script>", "a.png", "image/png", corebot.PartFile, "text/html"},
		"voice":                   {ogg, "voice.oga", "", corebot.PartAudio, "audio/ogg"},
		"bare frames of mp3":      {"\xff\xfb\x90\x00", "", "", corebot.PartAudio, "audio/mpeg"},
		"a video":                 {mp4, "", "", corebot.PartFile, "video/mp4"},
		"voice in mp4": {
			mp4, "", "audio/mp4", corebot.PartAudio, "audio/mp4",
		},
		"a document":     {"%PDF-1.7", "a", "", corebot.PartFile, "application/pdf"},
		"an office file": {"PK\x03\x04", "a.DOCX", "", corebot.PartFile, officeTypes[".docx"]},
		"nothing":        {"", "a.png", "image/png", corebot.PartFile, "text/plain"},
	} {
		got, err := Look(bytes.NewReader([]byte(c.content)), corebot.Part{
			Type: corebot.PartFile, Name: c.file, MediaType: c.declared,
		})
		if err != nil || got.Type != c.kind || got.MediaType != c.media {
			t.Errorf("%s is %s %s, %v", name, got.Type, got.MediaType, err)
		}
	}
}

func TestANameIsForDisplayOnly(t *testing.T) {
	long := strings.Repeat("ä", 200) + ".pdf"
	for name, want := range map[string]string{
		"report.pdf": "report.pdf", "../../etc/passwd": "passwd", `C:\x\evil.exe`: "evil.exe", "..": "",
		".hidden":            "hidden",
		"photo\u202egpj.exe": "photogpj.exe", "a\x00b\nc.txt": "abc.txt",
		"a/b/": "", "": "", "  x .": "x", "<b>\"": "_b__",
		"\xff\xfe.txt": "txt", long: strings.Repeat("ä", 58) + ".pdf",
	} {
		if got := DisplayName(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
}

func FuzzAContentIsSeenOrAFile(f *testing.F) {
	f.Add([]byte(pngOf(4, 4)), "a.png", "image/png")
	f.Add([]byte("RIFF\x1a\x00\x00\x00WEBPVP8X"), "../a", "audio/mp4")
	f.Fuzz(func(t *testing.T, content []byte, name, declared string) {
		p, err := Look(bytes.NewReader(content), corebot.Part{Type: corebot.PartFile, Name: name, MediaType: declared})
		if err != nil || p.Validate() != nil || len(p.Name) > maxName || strings.ContainsAny(p.Name, "/\\\x00\n") ||
			strings.HasPrefix(p.Name, ".") || p.MediaType == "" {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// More contents without a reference than are remembered go in several rounds. They must not push one another out of the
// memory for ever.
func TestContentsBeyondThoseThatAreRememberedGoLater(t *testing.T) {
	s, refs := newStore(t, Options{})
	first, later := keep(t, s, chat("a"), "first"), keep(t, s, chat("a"), "later")
	refs.refs = nil
	for i := range maxOrphans - 1 {
		s.orphans[strconv.Itoa(i)] = time.Now()
	}
	s.orphans[first.Hash] = time.Now().Add(-Grace)
	for _, f := range []corebot.AttachedFile{later, first} {
		age(t, s.path(f.Hash), 48*time.Hour)
		if err := s.orphan(t.Context(), s.path(f.Hash), Grace); err != nil {
			t.Fatal(err)
		}
	}
	if got := onDisk(t, s); len(got) != 1 || got[0] != later.Hash {
		t.Errorf("there are %v, want the later one alone", got)
	}
	if err := s.orphan(t.Context(), s.path(later.Hash), Grace); err != nil {
		t.Fatal(err)
	}
	if _, noted := s.orphans[later.Hash]; !noted {
		t.Error("the later one has no room in the memory")
	}
}
