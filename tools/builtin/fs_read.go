package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/corebot/corebot/internal/officetext"
	"github.com/corebot/corebot/internal/pdftext"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_read.md
var readDoc string

// One call's share stays below what a box shows, note included: a file that is read must not come back as an artifact.
const (
	readDefault = 32 << 10
	readMax     = 48_000
)

type readArgs struct {
	Path   string `json:"path" jsonschema:"the file, in the workspace, or an absolute path"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where to begin, in bytes; 0 is the beginning"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"how many bytes to read; 32768 if left out and 48000 at most"`
}

// Read shows a piece of a text file, or of the text of a PDF or office document. Without docs documents are not shown.
// A file that untainted turns of the call's principal alone have written is not from outside.
func Read(reach *roots.Reach, docs Documents) tools.Tool {
	return tools.NewSourced("fs.read", readDoc, tools.ReadOnly,
		func(ctx context.Context, call tools.Call, a readArgs) (text string, outside bool, err error) {
			limit := min(a.Limit, readMax)
			if a.Limit == 0 {
				limit = readDefault
			}
			root, p, err := reach.At(a.Path)
			if err != nil {
				return "", false, tools.Own(err)
			}
			c, own, err := ownChunk(ctx, call, root, p, a.Offset, limit)
			if !own && err == nil {
				c, err = root.ReadChunk(p.Path, a.Offset, limit)
			}
			if !own && err == nil {
				c, _, err = documentChunk(ctx, docs, root, p.Path, c, limit)
			}
			if err != nil {
				return "", false, tools.Own(p.Explain(err))
			}
			return show(a.Path, c), !own, nil
		}, tools.Touches(func(_ tools.Call, a readArgs) policy.Target { return reads(a.Path) }),
		tools.Trusted(func(_ tools.Call, a readArgs) bool { return policy.OperatorsText(reads(a.Path)) }))
}

// ownChunk is a piece of a file that untainted turns of the call's principal alone have written. The piece is of the
// very bytes that were compared: the file is read once. A document is never his own: its text is not its bytes.
func ownChunk(ctx context.Context, call tools.Call, root *rootfs.Root, p roots.Place, offset, limit int64) (
	c rootfs.Chunk, own bool, err error,
) {
	w, err := call.Written(ctx)
	if err != nil || !p.InWorkspace() || !w.Has(p.Path) || offset < 0 || limit <= 0 {
		return c, false, err
	}
	data, err := root.ReadFile(p.Path, maxFile)
	if err != nil || !w.Wrote(p.Path, data) || pdftext.Is(data) || officetext.Is(data) {
		return c, false, nil //nolint:nilerr // the usual way reads it, and says what is wrong
	}
	size := int64(len(data))
	from := min(offset, size)
	return rootfs.Chunk{Data: data[from:min(from+limit, size)], Offset: offset, Size: size}, true, nil
}

// show is a chunk as text, with a note where it is not the whole file.
func show(path string, c rootfs.Chunk) string {
	text, skipped := wholeRunes(c.Data)
	end := c.Offset + int64(len(c.Data))
	switch {
	case c.Size == 0:
		return fmt.Sprintf("[%s is empty]", path)
	case len(c.Data) == 0:
		return fmt.Sprintf("[offset %d is past the end: %s has %d bytes]", c.Offset, path, c.Size)
	case !isText(text) || c.Offset == 0 && skipped > 0:
		return fmt.Sprintf(
			"[%s is not UTF-8 text but a binary file, or in another encoding; its %d bytes are not shown]", path,
			c.Size)
	case len(text) == 0:
		return fmt.Sprintf("[bytes %d to %d of %s are a part of one character; read more]", c.Offset, end, path)
	case c.Offset == 0 && end >= c.Size:
		return string(text)
	case end >= c.Size:
		return fmt.Sprintf("%s\n[the end of %d bytes]", text, c.Size)
	}
	next := c.Offset + int64(skipped+len(text)) // a character that is cut at the end belongs to the next piece
	return fmt.Sprintf("%s\n[up to byte %d of %d; go on with offset %d]", text, next, c.Size, next)
}

// Documents gives the text of PDF and office documents. They can be hostile, so a worker reads them. An error
// of Text is that of the document, in Corebot's own words.
type Documents interface {
	Text(ctx context.Context, pdf []byte) (string, error)
}

const (
	headBytes   = 4 << 10  // by which a document is known
	maxDocument = 16 << 20 // bytes of a document that is read
	maxText     = 4 << 20  // bytes of its text
)

// DocumentsHere reads documents in this process. It is for workers: a document can keep the process busy for ever.
type DocumentsHere struct{}

// Text implements [Documents].
func (DocumentsHere) Text(_ context.Context, pdf []byte) (string, error) {
	if officetext.Is(pdf) {
		d, err := officetext.Read(pdf, maxText)
		if d.Cut {
			d.Text += "\n\n[there is more than this]"
		}
		return d.Text, err
	}
	d, err := pdftext.Read(pdf, maxText)
	if err != nil {
		return "", err
	}
	if d.Cut {
		d.Text += fmt.Sprintf("\n\n[there is more than this; the document has %d pages]", d.Pages)
	}
	return d.Text, nil
}

// documentChunk is a piece of the text of a file that is a PDF or office document. Without documents no file is one.
func documentChunk(ctx context.Context, docs Documents, root *rootfs.Root, path string, c rootfs.Chunk, limit int64) (
	text rootfs.Chunk, is bool, err error,
) {
	head := c
	if c.Offset > 0 || len(c.Data) < headBytes {
		if head, err = root.ReadChunk(path, 0, headBytes); err != nil {
			return c, false, err
		}
	}
	if docs == nil || !pdftext.Is(head.Data) && !officetext.Is(head.Data) {
		return c, false, nil
	}
	data, err := root.ReadFile(path, maxDocument)
	if err != nil {
		return c, true, err
	}
	whole, err := docs.Text(ctx, data)
	if err != nil {
		return c, true, fmt.Errorf("read %s: %w", path, err)
	}
	size := int64(len(whole))
	from := min(c.Offset, size)
	return rootfs.Chunk{Data: []byte(whole[from:min(from+limit, size)]), Offset: c.Offset, Size: size}, true, nil
}

// fetchedDocument is the text of a document that web.fetch has got.
func fetchedDocument(ctx context.Context, docs Documents, body []byte, cut bool) (string, error) {
	text, err := docs.Text(ctx, body)
	if err != nil && cut {
		err = fmt.Errorf("%w; it is larger than %d bytes, and the rest was not read", err, len(body))
	}
	return strings.TrimSpace(text), tools.Own(err)
}
