package witness

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/strictjson"
)

// Evidence is the first line of an exported audit trail: it says what follows. The published heads follow, one a line,
// and then the events, one a line. [Check] needs nothing but this file: no home of a Corebot.
type Evidence struct {
	Version    int       `json:"corebotAuditEvidence"`
	ExportedAt time.Time `json:"exportedAt"`
	Database   string    `json:"database"`
	Past       int64     `json:"past"`       // the number of the event before the first of the file; 0: there is none
	PastHash   string    `json:"pastHash"`   // the hash of that event, in hexadecimal digits; empty if there is none
	Events     int64     `json:"events"`     // how many events follow
	Heads      int       `json:"heads"`      // how many published heads follow
	PublicKeys string    `json:"publicKeys"` // of the signers of these heads, in PEM
}

// Encode writes the keys as PEM blocks, one after the other.
func (k Keys) Encode() (string, error) {
	var b bytes.Buffer
	for _, public := range k {
		der, err := x509.MarshalPKIXPublicKey(public)
		if err == nil {
			err = pem.Encode(&b, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
		}
		if err != nil {
			return "", fmt.Errorf("encode a public key: %w", err)
		}
	}
	return b.String(), nil
}

// Checked is the result of a check. Only the events up to Proven are signed. The writer of the file can have invented
// the events after Proven, or can have cut off later ones.
type Checked struct {
	First    int64             `json:"first"`             // the number of the first event
	Head     corebot.AuditHead `json:"head"`              // the last event
	Events   int64             `json:"events"`            // how many there are
	Heads    int               `json:"heads"`             // published heads: all of them are on the chain
	Proven   int64             `json:"proven"`            // the last event with a published head; 0: nothing is proven
	Signers  []string          `json:"signers"`           // ids of the keys that signed the heads
	Pinned   bool              `json:"pinned"`            // the caller gave the keys; else they are the evidence's own
	ProvenAt time.Time         `json:"provenAt,omitzero"` // when the head of the event Proven was published
}

// ErrUnsigned says that evidence has no published head, so that the caller's keys have signed nothing in it.
var ErrUnsigned = fmt.Errorf("%w: the evidence has no published head, so no key has signed any of it",
	corebot.ErrInvalid)

// maxRecord bounds a line of evidence, in bytes. The longest part of an event is the arguments of a call. Package tools
// takes at most 2 MiB of them, and JSON escapes can make them six times as long.
const maxRecord = 16 << 20

// Check follows evidence from its beginning to its end. Every event must fit to the one before, and every published
// head must be on this chain: if not, the error is a [*corebot.BrokenChain]. Evidence of another form is a
// [corebot.ErrInvalid].
//
// Check trusts the public keys that are given, and then refuses evidence without a published head ([ErrUnsigned]).
// With nil keys it takes those of the evidence itself. They prove only that the writer of the file also signed it, and
// evidence without a head passes with nothing proven: see Checked.Proven.
func Check(r io.Reader, keys Keys) (c Checked, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 64<<10), maxRecord)
	var head Evidence
	if !in.Scan() || strictly(in.Bytes(), &head) != nil || head.Version != 1 || head.Events < 0 || head.Heads < 0 {
		return c, errors.Join(fmt.Errorf("%w: it is no exported audit trail", corebot.ErrInvalid), in.Err())
	}
	if c.Pinned = keys != nil; !c.Pinned {
		if keys, err = ParseKeys([]byte(head.PublicKeys)); err != nil {
			return c, fmt.Errorf("the public keys of the evidence: %w", err)
		}
	}
	past, err := hex.DecodeString(head.PastHash)
	if err != nil {
		return c, fmt.Errorf("%w: the hash before the first event: %v", corebot.ErrInvalid, err)
	}
	if c.Pinned && head.Heads == 0 {
		return c, ErrUnsigned
	}
	lines, err := publishedOf(in, head, keys)
	if err != nil {
		return c, err
	}
	var walk corebot.AuditWalk
	walk.Begin(head.Past, past, headsOf(lines))
	for range head.Events {
		var record corebot.AuditRecord
		next := walk.Chain.Head.Event + 1
		if !in.Scan() {
			return c, cutOff(in, "event", next)
		}
		if err := strictly(in.Bytes(), &record); err != nil {
			return c, &corebot.BrokenChain{Event: next, Why: "its line cannot be read: " + err.Error()}
		}
		if err := walk.Step(record); err != nil {
			return c, err
		}
	}
	if in.Scan() {
		return c, fmt.Errorf("%w: something follows the last event", corebot.ErrInvalid)
	}
	c.First, c.Events, c.Head = head.Past+1, walk.Chain.Events, walk.Chain.Head
	for _, l := range lines {
		if err := c.meet(l, head.Database, &walk); err != nil {
			return c, err
		}
	}
	return c, in.Err()
}

// publishedOf reads the published heads of evidence and verifies their signatures.
func publishedOf(in *bufio.Scanner, head Evidence, keys Keys) (lines []Line, err error) {
	for n := range head.Heads {
		if !in.Scan() {
			return nil, cutOff(in, "published head", int64(n+1))
		}
		line, err := Parse(in.Bytes(), keys)
		if err != nil {
			return nil, fmt.Errorf("published head %d: %w", n+1, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func headsOf(lines []Line) (heads []corebot.PublishedHead) {
	for _, l := range lines {
		heads = append(heads, l.Head())
	}
	return heads
}

// meet adds a published head to the result. A head that is not on the chain, or is of another database, is a broken
// chain.
func (c *Checked) meet(line Line, database string, walk *corebot.AuditWalk) error {
	if !walk.Has(line.Head().AuditHead) || line.Database != database {
		return &corebot.BrokenChain{Event: line.Event, Why: "it is not the event whose head was published at " +
			line.At.UTC().Format(time.RFC3339)}
	}
	c.Heads++
	if line.Event >= c.Proven {
		c.Proven, c.ProvenAt = line.Event, line.At
	}
	if !slices.Contains(c.Signers, line.Key) {
		c.Signers = append(c.Signers, line.Key)
	}
	return nil
}

func cutOff(in *bufio.Scanner, what string, n int64) error {
	return errors.Join(fmt.Errorf("%w: the evidence is cut off before %s %d", corebot.ErrInvalid, what, n), in.Err())
}

// maxLevels is more than any event has.
const maxLevels = 10_000

// strictly reads what somebody signed: all who read it must see the same in it.
func strictly(text []byte, into any) error {
	return strictjson.Decode(text, maxLevels, strictjson.Rules{}, into)
}
