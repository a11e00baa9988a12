package channeltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Files are the files that a channel under test sends, of any chat.
type Files struct {
	dir  string
	mu   sync.Mutex
	kept map[string]corebot.AttachedFile
}

// NewFiles keeps files in a directory that ends with the test.
func NewFiles(t *testing.T) *Files {
	t.Helper()
	return &Files{dir: t.TempDir(), kept: map[string]corebot.AttachedFile{}}
}

// Add keeps a file, and gives the part of a reply that names it.
func (f *Files) Add(t *testing.T, p corebot.Part, content string) corebot.Part {
	t.Helper()
	sum := sha256.Sum256([]byte(p.Name + content))
	p.Hash = hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(f.dir, p.Hash), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept[p.Hash] = corebot.AttachedFile{
		Hash: p.Hash, Name: p.Name, MediaType: p.MediaType, Size: int64(len(content)),
	}
	return p
}

// Grow has a file be as large as that. The bytes are holes of the disk.
func (f *Files) Grow(t *testing.T, p corebot.Part, size int64) {
	t.Helper()
	if err := os.Truncate(filepath.Join(f.dir, p.Hash), size); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ref := f.kept[p.Hash]
	ref.Size = size
	f.kept[p.Hash] = ref
}

// Open implements [channels.FileOpener].
func (f *Files) Open(_ context.Context, _ corebot.Key, hash string) (*os.File, corebot.AttachedFile, error) {
	f.mu.Lock()
	ref, is := f.kept[hash]
	f.mu.Unlock()
	if !is {
		return nil, ref, corebot.ErrNotFound
	}
	file, err := os.Open(filepath.Join(f.dir, hash))
	return file, ref, err
}

// Names keeps which ids of a platform stand for the ids of a test. The zero value knows none.
type Names struct {
	mu  sync.Mutex
	ids map[string]string
}

// Is says that the platform calls the message id by another name.
func (n *Names) Is(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ids == nil {
		n.ids = map[string]string{}
	}
	n.ids[id] = name
}

// Of is the platform's name of a message; the id itself where none is known.
func (n *Names) Of(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, is := n.ids[id]; is {
		return name
	}
	return id
}

// picture is a file that begins as a PNG image does.
const picture = "\x89PNG\r\n\x1a\nnot really"

func showsFiles(r *rig) {
	if r.Files == nil {
		r.t.Skip("the channel shows no files")
	}
	image := r.Files.Add(r.t, corebot.Part{
		Type: corebot.PartImage, Name: "a \"cat\" ü.png", MediaType: "image/png", Text: "what a *cat*",
	}, picture)
	large := r.Files.Add(r.t, corebot.Part{
		Type: corebot.PartFile, Name: "large.bin", MediaType: "application/octet-stream",
	}, "large")
	r.Files.Grow(r.t, large, r.TooLarge)
	page := r.Files.Add(r.t, corebot.Part{
		Type: corebot.PartFile, Name: "page.pdf", MediaType: "application/pdf",
	}, "%PDF-1.7 not really")
	r.say("m1", "show me") // a chat that has spoken
	r.until("it is stored", func() bool { return len(r.stored("m1")) == 1 })
	replies := [][]corebot.Part{append(corebot.TextPart("here they are"), image, large, page), {page}}
	for i, parts := range replies {
		id := fmt.Sprint("r", i)
		_, err := r.kit.Bus.Publish(r.t.Context(), corebot.Message{
			ID: id, Direction: corebot.Outbound, Kind: corebot.KindReply, Key: r.key(), Parts: parts,
		})
		r.must(err)
		r.until(id+" is sent", func() bool { return r.stored(id)[0].End == corebot.EndSent })
	}
	want := []string{"a \"cat\" ü.png: " + picture, "page.pdf: %PDF-1.7 not really", "page.pdf: %PDF-1.7 not really"}
	if got := r.Uploads(); !slices.Equal(got, want) {
		r.t.Errorf("the chat shows the files %q", got)
	}
	texts := strings.ReplaceAll(strings.Join(r.Shown(), "\n"), `\`, "") // some platforms escape signs
	if !strings.Contains(texts, "here they are") || !strings.Contains(texts, `"large.bin"`) ||
		!strings.Contains(texts, fmt.Sprint(r.TooLarge)) || !strings.Contains(texts, "what a *cat*") {
		r.t.Errorf("the chat shows %q", texts)
	}
}

func findsFiles(r *rig) {
	asked, can := r.channel.(channels.Reconciler)
	if !can || r.Files == nil {
		r.t.Skip("the channel cannot look up which files the platform shows")
	}
	r.say("m1", "show me")
	r.until("it is stored", func() bool { return len(r.stored("m1")) == 1 })
	file := r.Files.Add(r.t, corebot.Part{Type: corebot.PartFile, Name: "a.txt", MediaType: "text/plain"}, "text")
	other := r.Files.Add(r.t, corebot.Part{Type: corebot.PartFile, Name: "a.txt", MediaType: "text/plain"}, "further")
	text := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: r.key(), Kind: corebot.KindReply, Parts: corebot.TextPart("look"),
		CreatedAt: time.Now(), InReplyTo: r.ID("m1"),
	}
	_, err := r.channel.Send(r.t.Context(), text)
	r.must(err)
	o := text
	o.Before, o.IdempotencyKey, o.Parts = "look", "r1/1/4-5", []corebot.Part{file}
	later := o
	later.IdempotencyKey, later.Parts = "r1/1/5-6", []corebot.Part{other}
	sent, err := r.channel.Send(r.t.Context(), o)
	r.must(err)
	alike := o // of the same name and size
	alike.IdempotencyKey, alike.Shown = "r1/1/6-7", sent.IDs
	alike.Parts = []corebot.Part{r.Files.Add(r.t, file, "texx")}
	for _, c := range []channels.Reconciler{asked, r.Open().(channels.Reconciler)} { // and in another process
		found, shown, err := c.Delivered(r.t.Context(), o)
		r.must(err)
		if !shown || len(sent.IDs) == 0 || !slices.Equal(found.IDs, sent.IDs) {
			r.t.Errorf("what was sent as %+v is found as %+v, %v", sent, found, shown)
		}
		for _, never := range []channels.Outbound{later, alike} {
			found, shown, err = c.Delivered(r.t.Context(), never)
			if shown || err != nil && !errors.Is(err, channels.ErrCannotTell) {
				r.t.Errorf("what was never sent is found as %+v, %v, %v", found, shown, err)
			}
		}
	}
}

// Page holds the section of a network in docs/channels.md against its settings and its errors. The section has a row
// for each setting with its default, and a row that begins with each text.
func Page(t *testing.T, heading string, n channels.Network, errors ...string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatalf("the page has no section %s", heading)
	}
	standard := reflect.ValueOf(n.Standard)
	for i := range standard.NumField() {
		row := fmt.Sprintf("| `%s` | `%v` |", standard.Type().Field(i).Tag.Get("mapstructure"), standard.Field(i))
		row = strings.Replace(row, "| `` |", "| |", 1)
		if !strings.Contains(section, row) {
			t.Errorf("the section %s has no row %s", heading, row)
		}
	}
	for _, said := range errors {
		if !strings.Contains(section, "\n| "+said) {
			t.Errorf("the section %s does not have %q", heading, said)
		}
	}
}
