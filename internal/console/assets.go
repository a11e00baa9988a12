package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed templates static
var files embed.FS

// resource is a file of the pages, as browsers get it. Its address has its hash, so that they can keep it for ever.
type resource struct {
	hash    string
	plain   []byte
	packed  []byte
	content string // the media type
}

var resources sync.Map

// resourceOf reads a file once. A name that there is not is an error.
func resourceOf(name string) (*resource, error) {
	if found, known := resources.Load(name); known {
		return found.(*resource), nil
	}
	text, err := fs.ReadFile(files, "static/"+name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a good one
	_, _ = w.Write(text)                                       // into memory: cannot fail
	_ = w.Close()
	content := mime.TypeByExtension(path.Ext(name))
	if strings.HasSuffix(name, ".js") {
		content = "text/javascript; charset=utf-8"
	}
	found, _ := resources.LoadOrStore(name, &resource{hex.EncodeToString(sum[:8]), text, packed.Bytes(), content})
	return found.(*resource), nil
}

// assetPath is the address of a file.
func assetPath(name string) string {
	found, err := resourceOf(name)
	if err != nil {
		return "/static/missing/" + name // a test looks at every page for it
	}
	return "/static/" + found.hash + "/" + name
}

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	found, err := resourceOf(path.Clean(r.PathValue("name")))
	if err != nil || found.hash != r.PathValue("hash") {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", found.content)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	text := found.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = found.packed
	}
	_, _ = w.Write(text)
}
