package witness

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// version of the line.
const version = 1

// Line is a signed head, as it is published: one JSON object on one line.
type Line struct {
	Version   int       `json:"corebotAuditHead"`
	At        time.Time `json:"at"` // when it was published
	Database  string    `json:"database"`
	Event     int64     `json:"event"`
	Hash      string    `json:"hash"`
	EventAt   time.Time `json:"eventAt"`
	Key       string    `json:"key"` // the id of the key
	Signature string    `json:"signature"`
}

// Sign makes the line of a head.
func (k Key) Sign(h corebot.PublishedHead) Line {
	l := Line{
		Version: version, At: h.At.UTC().Truncate(time.Millisecond), Database: h.Database, Event: h.Event, Hash: h.Hash,
		EventAt: h.EventAt.UTC().Truncate(time.Millisecond), Key: k.ID,
	}
	l.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, l.signed()))
	return l
}

// signed is what the signature is of. No field can have a line end.
func (l Line) signed() []byte {
	return fmt.Appendf(nil, "corebot audit head %d\n%d\n%s\n%d\n%s\n%d\n%s\n", l.Version, l.At.UnixMilli(), l.Database,
		l.Event, l.Hash, l.EventAt.UnixMilli(), l.Key)
}

// Encode writes the line, with its end.
func (l Line) Encode() ([]byte, error) {
	text, err := json.Marshal(l)
	return append(text, '\n'), err
}

// Head is what the line says.
func (l Line) Head() corebot.PublishedHead {
	return corebot.PublishedHead{
		AuditHead: corebot.AuditHead{Event: l.Event, Hash: l.Hash}, Database: l.Database, At: l.At, EventAt: l.EventAt,
	}
}

// Parse reads a line and checks its signature with one of the keys.
func Parse(text []byte, keys Keys) (l Line, err error) {
	if err := strictly(text, &l); err != nil {
		return l, fmt.Errorf("%w: it is no published head: %v", corebot.ErrInvalid, err)
	}
	if l.Version != version {
		return l, fmt.Errorf("%w: a published head of version %d, and not %d", corebot.ErrInvalid, l.Version, version)
	}
	if l.Event != 0 || l.Hash != "" { // a trail without events has neither
		if _, err := corebot.ParseAuditHead((corebot.AuditHead{Event: l.Event, Hash: l.Hash}).String()); err != nil {
			return l, err
		}
	}
	if strings.ContainsAny(l.Database+l.Key, "\n\r") || len(l.Database) > 100 {
		return l, fmt.Errorf("%w: it is no published head: a field has a line end, or is too long", corebot.ErrInvalid)
	}
	public, known := keys[l.Key]
	if !known {
		return l, fmt.Errorf("%w: the key %.40q signed it, and is not among the public keys", corebot.ErrInvalid, l.Key)
	}
	signature, err := base64.StdEncoding.DecodeString(l.Signature)
	if err != nil || !ed25519.Verify(public, l.signed(), signature) {
		return l, fmt.Errorf("%w: its signature is not of the key %s", corebot.ErrInvalid, l.Key)
	}
	return l, nil
}

// maxLine bounds a line, in bytes.
const maxLine = 4 << 10

// Published is a file of heads as it was read.
type Published struct {
	Lines []Line
	Bad   []error // of lines that say nothing, with their numbers; at most [maxBad]
	Cut   bool    // the last line has no end: the write of it broke off
}

const maxBad = 20

// Read reads a file of heads, oldest first. It passes over lines that say nothing, and names them.
func Read(r io.Reader, keys Keys) (p Published, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	for number := 1; ; number++ {
		text, ends, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return p, err
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l, bad := Parse(bytes.TrimSpace(text), keys)
			switch {
			case bad == nil:
				p.Lines = append(p.Lines, l)
			case err != nil && !ends:
				p.Cut = true
			case len(p.Bad) < maxBad:
				p.Bad = append(p.Bad, fmt.Errorf("line %d: %w", number, bad))
			}
		}
		if err != nil {
			return p, nil
		}
	}
}

// readLine reads a line, and leaves out what is longer than [maxLine].
func readLine(in *bufio.Reader) (text []byte, ends bool, err error) {
	text, err = in.ReadSlice('\n')
	ends = err == nil
	text = bytes.Clone(text)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
		ends = err == nil
	}
	return text, ends, err
}
