package channeltest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/storage"
)

const (
	large     = 50 << 20 // bytes of a file that no platform should give
	mostKept  = 1 << 20  // bytes of a file that the suite keeps
	mostTaken = 16 << 20 // bytes that Corebot and the test may allocate for one file
)

// desk keeps files as a running Corebot does.
type desk struct {
	*filestore.Store
	refs *storage.Attached
}

func (d desk) Had(ctx context.Context, k corebot.Key, id string) (bool, error) {
	return d.refs.Had(ctx, k, id)
}

func (r *rig) desk() desk {
	refs := storage.NewAttached(r.kit.DB)
	return desk{filestore.New(filepath.Join(r.dir, "files"), refs, filestore.Options{
		FileBytes: mostKept, ChatBytes: large, TotalBytes: large,
	}), refs}
}

// SentFile is a file that a person sends.
type SentFile = platform.File

// badFile is a file, and what becomes of it.
type badFile struct {
	what string
	platform.File
	kind corebot.PartType // that is kept; empty: the part says why nothing is
	says string           // a pattern of what a part says that has no content
	huge bool             // there is too much of it for a message that has its files in itself
}

// zeros writes so many zeros, or until nobody reads any more.
func zeros(w io.Writer, n int64) {
	piece := make([]byte, 32<<10)
	for ; n > 0; n -= int64(len(piece)) {
		if _, err := w.Write(piece[:min(n, int64(len(piece)))]); err != nil {
			return
		}
	}
}

// headed answers with a head of its own making and so many zeros, and closes the connection.
func headed(head string, n int64) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close() //nolint:errcheck // a test
		_ = conn.SetDeadline(time.Now().Add(2 * patience))
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", head)
		zeros(conn, n)
	}
}

// canvas is the head of a PNG image of that size. No pixel follows.
func canvas(width, height uint32) []byte {
	head := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	head = append(binary.BigEndian.AppendUint32(head, height), 8, 6, 0, 0, 0)
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return append(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(head)), make([]byte, 16)...)
}

// sizes are files that are larger than they may be, or than their platform says, or smaller.
func sizes() []badFile {
	const tooLarge, unfetched = "larger than a file may be|bytes of the mail", "could not be fetched"
	of := func(n int64) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { zeros(w, n) }
	}
	return []badFile{
		{
			what: "50 MB whose length is said", says: tooLarge, huge: true,
			File: platform.File{Size: large, Answer: headed(fmt.Sprint("Content-Length: ", large), large)},
		}, {
			what: "50 MB that call themselves 10 bytes", says: tooLarge, huge: true,
			File: platform.File{Size: 10, Answer: of(large)},
		}, {
			what: "50 MB without a length", says: tooLarge, huge: true,
			File: platform.File{Answer: headed("Connection: close", large)},
		}, {
			what: "a stream without an end", says: tooLarge, huge: true, File: platform.File{Answer: of(1 << 50)},
		}, {
			what: "50 MB in 50 KB", says: tooLarge, huge: true,
			File: platform.File{Size: 50_000, Answer: func(w http.ResponseWriter) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(bomb())
			}},
		}, {
			what: "10 bytes that call themselves 50 MB", says: unfetched, huge: true,
			File: platform.File{Size: large, Answer: headed(fmt.Sprint("Content-Length: ", large), 10)},
		}, {
			what: "2 MB in the message", says: tooLarge, File: platform.File{Content: make([]byte, 2<<20)},
		}, {
			what: "nothing", kind: corebot.PartFile, says: "empty",
			File: platform.File{Name: "empty.txt", Content: []byte{}},
		},
	}
}

// bomb are 50 MB of zeros in little room. To make them takes seconds under the race detector, so they are made once,
// and before anybody waits for them.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros(z, large)
	_ = z.Close() // into memory
	return b.Bytes()
})

// kinds are files that are not what they are called.
func kinds() []badFile {
	page := []byte("<html><script>alert(1)</script></html>")
	return []badFile{
		{
			what: "an image of 60,000 x 60,000 pixels", kind: corebot.PartFile,
			File: platform.File{Name: "a.png", MediaType: "image/png", Content: canvas(60_000, 60_000)},
		}, {
			what: "a page that calls itself an image", kind: corebot.PartFile,
			File: platform.File{Name: "a.png", MediaType: "image/png", Content: page},
		}, {
			what: "an image that calls itself a text", kind: corebot.PartImage,
			File: platform.File{Name: "a.txt", MediaType: "text/plain", Content: canvas(4, 4)},
		}, {
			what: "50 MB of zeros in an archive that calls itself a page of an office program", kind: corebot.PartFile,
			File: platform.File{Name: "a.docx", MediaType: "application/zip", Content: bomb()},
		}, {
			what: "a media type that is none", kind: corebot.PartFile,
			File: platform.File{Name: "a.txt", MediaType: "\u202e../x; \"=", Content: []byte("text")},
		}, {
			what: "a media type of 4,000 bytes", kind: corebot.PartFile,
			File: platform.File{Name: "a.txt", MediaType: "text/" + strings.Repeat("x", 4000), Content: []byte("text")},
		},
	}
}

// names are files whose names lead somewhere, or hide something.
func names() (all []badFile) {
	for _, name := range []string{
		"../../x", "../../../../../etc/passwd", "/etc/passwd", `C:\x`, `..\..\x`, "a/..", "~/.ssh/id", "-rf", "a\x00b",
		strings.Repeat("x", 4000) + ".txt", strings.Repeat("\u00e4", 2000), "", ".", "..", "...", " a. ",
		".corebot.yaml",
		"CON", "nul.txt", "com1", "a:stream", "a\u202etxt.exe", "a\u2066b\u2069", "a\u200bb", "a\x1b[31mb", "a\r\nb: c",
		"\xff\xfe",
	} {
		all = append(all, badFile{
			what: fmt.Sprintf("the name %.20q", name), kind: corebot.PartFile,
			File: platform.File{Name: name, MediaType: "text/plain", Content: []byte("of " + name)},
		})
	}
	return all
}

// getsBadFiles sends one bad file after the other. Each message is there once, with the file or why there is none. A
// sender's name for a file leads nowhere, and Corebot never has more of a file in memory than a piece.
func getsBadFiles(r *rig) {
	if r.Attach == nil {
		if r.NoFiles == "" {
			r.t.Error("the subject says neither how a file comes to the channel nor why none does")
		}
		r.t.Skip(r.NoFiles)
	}
	door := r.supervisor.DoorOf(r.Account)
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	all := append(append(sizes(), kinds()...), names()...)
	all = append(all, all[len(all)-1]) // the same once more
	for i, f := range all {
		if f.huge && r.FilesInMessages {
			continue
		}
		id := fmt.Sprint("m", i)
		f.ID = fmt.Sprint("badfile", i)
		before := allocated()
		if refused := r.Attach(door, id, "look at "+id, f.File); refused != "" {
			r.refusedFile(f, id, refused)
			continue
		}
		r.until(id+" is stored", func() bool { return len(r.stored(id)) == 1 })
		if took := allocated() - before; f.huge && took > mostTaken {
			r.t.Errorf("%s: %d bytes were allocated", f.what, took)
		}
		d := r.kit.Claim()
		r.looksAt(f, id, d.Message)
		r.must(r.kit.Bus.Settle(r.t.Context(), d, done))
	}
	r.staysInside()
}

// refusedFile looks at what a sender was told whose message was not taken.
func (r *rig) refusedFile(f badFile, id, refused string) {
	r.t.Helper()
	may := f.kind == "" || len(f.Name)+len(f.MediaType) > 512 || !utf8.ValidString(f.Name+f.MediaType)
	if !may || len(r.stored(id)) > 0 || !regexp.MustCompile(r.Refuses).MatchString(refused) {
		r.t.Errorf("%s is refused with %.300q", f.what, refused)
	}
}

// looksAt looks at a message that came with a file.
func (r *rig) looksAt(f badFile, id string, m corebot.Message) {
	r.t.Helper()
	files := corebot.Attachments(m.Parts)
	said := m.Text()
	if len(files) == 1 && f.Name == "" {
		said += files[0].Name // a platform can take the words for the name of a file that has none
	}
	if m.ID != r.ID(id) || !strings.Contains(said, "look at "+id) || len(files) != 1 {
		r.t.Errorf("%s came in as %.300q", f.what, fmt.Sprintf("%+v", m))
		return
	}
	p := files[0]
	switch {
	case p.Hash == "" && f.says == "", p.Hash != "" && f.kind == "", p.Hash == "" && p.Text == "":
		r.t.Errorf("%s came in as %+v", f.what, p)
	case p.Hash == "" && !regexp.MustCompile(f.says).MatchString(p.Text):
		r.t.Errorf("of %s the message says: %s", f.what, p.Text)
	case p.Hash != "" && p.Type != f.kind:
		r.t.Errorf("%s is taken for %+v", f.what, p)
	}
	name := p.Name
	if len(name) > 255 || strings.ContainsAny(name, "/\\\x00") || name == "." || name == ".." ||
		redact.Visible(name) != name ||
		strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) || len(p.MediaType) > 255 {
		r.t.Errorf("%s has the name %q and the type %.300q", f.what, name, p.MediaType)
	}
}

var inside = regexp.MustCompile(`^(corebot\.db.*|database\.json|lock|files(/[0-9a-f]{2}(/[0-9a-f]{64})?)?)$`)

// staysInside looks for files anywhere but where contents are kept.
func (r *rig) staysInside() {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if at, bad := filepath.Rel(r.dir, path); bad == nil && at != "." && !inside.MatchString(at) {
			r.t.Errorf("there is %s", at)
		}
		return err
	})
	r.must(err)
}

// allocated is how many bytes the process has allocated so far, freed ones included.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc) //nolint:gosec // far from the limit
}
