package listen

import (
	"cmp"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Download is a file that is sent as it is. A browser saves it, and never shows it as a page of the listener.
type Download struct {
	Content io.ReadSeeker
	Name    string // under which it is saved
	Type    string // what its sender said that it is; nobody trusts it
	Hash    string // of the content
}

// Send sends the file, or the part of it that the request asks for.
func (d Download) Send(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Range"), ",") { // several ranges cost more than they are worth
		r.Header.Del("Range")
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", disposition(d.Name))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-File-Type", d.Type)
	h.Set("ETag", `"`+d.Hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, d.Content)
}

// disposition has a browser save a file under its name.
func disposition(name string) string {
	named := mime.FormatMediaType("attachment", map[string]string{"filename": cmp.Or(name, "file")})
	return cmp.Or(named, "attachment")
}

// pieceTime is how long a caller can take for one piece of an answer.
const pieceTime = 10 * time.Second

// Patient is an answer that can take long as a whole: each piece has a deadline of its own.
type Patient struct{ http.ResponseWriter }

// Write implements [http.ResponseWriter].
func (p Patient) Write(b []byte) (int, error) {
	if err := http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(pieceTime)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}
