package witness

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// Evidence is a part of the audit trail in a file, which is checked without a home. Its first line says what it has.
// The published heads follow, a line each, and then the events.
type Evidence struct {
	Version    int       `json:"corebotAuditEvidence"`
	ExportedAt time.Time `json:"exportedAt"`
	Database   string    `json:"database"`
	Past       int64     `json:"past"`     // the event before the first
	PastHash   string    `json:"pastHash"` // its hash; empty before the first event of all
	Events     int64     `json:"events"`
	Heads      int       `json:"heads"`
	PublicKeys string    `json:"publicKeys"` // in PEM
}

// Encode is keys in PEM.
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

// Checked is what evidence proves.
type Checked struct {
	First   int64             `json:"first"` // event
	Head    corebot.AuditHead `json:"head"`
	Events  int64             `json:"events"`
	Heads   int               `json:"heads"`             // published ones that hold
	Proven  int64             `json:"proven"`            // the last event up to which published heads prove the chain
	Signers []string          `json:"signers"`           // ids of the keys that signed them
	Pinned  bool              `json:"pinned"`            // the keys came from elsewhere than from the evidence
	At      time.Time         `json:"provenAt,omitzero"` // when the last head that holds was published
}

// maxRecord bounds a line of evidence. The arguments of a call are bounded by the audit.
const maxRecord = 16 << 20

// Check follows evidence from its beginning to its end. It trusts the public keys that are given. Without any it takes
// those of the evidence itself, which prove only that one key signed all of it.
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

// publishedOf reads the published heads of evidence.
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

// meet holds the events to a published head.
func (c *Checked) meet(line Line, database string, walk *corebot.AuditWalk) error {
	if !walk.Has(line.Head().AuditHead) || line.Database != database {
		return &corebot.BrokenChain{Event: line.Event, Why: fmt.Sprintf("it is another one than the head of %s",
			line.At.UTC().Format(time.RFC3339))}
	}
	c.Heads++
	if line.Event >= c.Proven {
		c.Proven, c.At = line.Event, line.At
	}
	if !slices.Contains(c.Signers, line.Key) {
		c.Signers = append(c.Signers, line.Key)
	}
	return nil
}

func cutOff(in *bufio.Scanner, what string, n int64) error {
	return errors.Join(fmt.Errorf("%w: the evidence is cut off before %s %d", corebot.ErrInvalid, what, n), in.Err())
}

func strictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}
