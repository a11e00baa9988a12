package llm

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
)

// Limits of the images and files that one request may carry. Parts beyond them are described in words.
const (
	MaxPartBytes  = 4 << 20
	MaxPartsBytes = 16 << 20
	MaxParts      = 20
)

// Blobs gives the bytes behind the content hash of a part, at most max of them: more is an error.
type Blobs interface {
	Blob(ctx context.Context, hash string, max int64) ([]byte, error)
}

// Attachment is an image or a file that a model is shown.
type Attachment struct {
	MediaType string
	Name      string
	Data      []byte
}

// Attacher fetches the attachments of one request, within the limits.
type Attacher struct {
	blobs Blobs
	takes func(mediaType string) bool
	count int
	bytes int
}

// NewAttacher makes one for a model that takes some media types. With blobs of nil it takes none.
func NewAttacher(blobs Blobs, takes func(mediaType string) bool) *Attacher {
	return &Attacher{blobs: blobs, takes: takes}
}

// Attach gives the attachments of a message, and its text. The text has a line for each part that the model cannot be
// shown, or that has a text of its own. A part that cannot be fetched is no error: it has such a line.
func (a *Attacher) Attach(ctx context.Context, m Message) (shown []Attachment, text string) {
	lines := slices.DeleteFunc([]string{m.About, m.Text}, func(line string) bool { return line == "" })
	for _, p := range m.Parts {
		if p.Type == corebot.PartText {
			continue // is in the message's text
		}
		data, why := a.fetch(ctx, p)
		if why == "" {
			shown = append(shown, Attachment{p.MediaType, p.Name, data})
		}
		if why != "" || p.Text != "" {
			lines = append(lines, describe(p, why))
		}
	}
	return shown, strings.Join(lines, "\n")
}

// fetch gives the bytes of a part, or says in words for the model why not.
func (a *Attacher) fetch(ctx context.Context, p corebot.Part) (data []byte, why string) {
	switch {
	case a.blobs == nil || !a.takes(p.MediaType):
		return nil, "this model cannot be shown it"
	case !isHash(p.Hash):
		return nil, "its content is not kept"
	case a.count >= MaxParts:
		return nil, fmt.Sprintf("only %d can be shown at once", MaxParts)
	}
	data, err := a.blobs.Blob(ctx, p.Hash, min(MaxPartBytes, int64(MaxPartsBytes-a.bytes)))
	if err != nil || len(data) == 0 {
		return nil, "its content cannot be read, or is too large"
	}
	a.count++
	a.bytes += len(data)
	return data, ""
}

// describe is a part in words. The sender chose its name, so the name stays one short quoted line. Where the part has a
// text, only of an image does it matter that the model is not shown it: the text says how to read other files.
func describe(p corebot.Part, why string) string {
	if p.Text != "" && (why == "" || p.Type != corebot.PartImage) {
		why = p.Text
	} else if p.Text != "" {
		why = p.Text + "; " + why
	}
	const longest = 100
	name := p.Name
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return fmt.Sprintf("[%s %s, %s: %s]", p.Type, strconv.Quote(name), strconv.Quote(p.MediaType), why)
}

// isHash: a reference is a hash in hex and nothing that a store could take for a path.
func isHash(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && s != ""
}
