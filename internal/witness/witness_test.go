package witness

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// trail is a trail of records in memory.
type trail struct {
	records []corebot.AuditRecord
	refuses error
}

func (t *trail) add(n int) {
	for range n {
		r := corebot.AuditRecord{ID: int64(len(t.records) + 1), At: int64(len(t.records)) * 1000, Event: "tool.result"}
		var before []byte
		if len(t.records) > 0 {
			fmt.Sscanf(t.records[len(t.records)-1].Hash, "%x", &before)
		}
		r.Hash = fmt.Sprintf("%x", r.Sum(before))
		t.records = append(t.records, r)
	}
}

func (t *trail) Head(context.Context) (h corebot.PublishedHead, err error) {
	h.Database = "db"
	if n := len(t.records); n > 0 {
		h.Event, h.Hash, h.EventAt = int64(n), t.records[n-1].Hash, time.UnixMilli(t.records[n-1].At)
	}
	return h, nil
}

func (t *trail) Follows(context.Context, corebot.PublishedHead) error { return t.refuses }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (%s)", err, corebot.HintOf(err))
	}
}

func publisher(t *testing.T, home string, of *trail, o Options) *Publisher {
	t.Helper()
	o.Log = zerolog.Nop()
	p, err := New(home, of, o)
	must(t, err)
	return p
}

func read(t *testing.T, home, file string) Published {
	t.Helper()
	keys, err := ReadKeys(filepath.Join(home, PublicFile))
	must(t, err)
	f, err := os.Open(file)
	must(t, err)
	defer f.Close() //nolint:errcheck // only read
	p, err := Read(f, keys)
	must(t, err)
	return p
}

// homeOf is a directory that the user alone can change.
func homeOf(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	must(t, os.Chmod(home, 0o700))
	return home
}

func TestHeadsArePublishedToAFileAndAnAddressAndHoldTheirSignatures(t *testing.T) {
	var posted bytes.Buffer
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		_, _ = io.Copy(&posted, r.Body)
		w.WriteHeader(status)
	}))
	defer server.Close()
	home, of := homeOf(t), &trail{}
	file, metrics := filepath.Join(home, "heads"), prometheus.NewRegistry()
	p := publisher(t, home, of, Options{
		Every: time.Hour, File: file, URL: server.URL, Token: "secret", Metrics: metrics,
	})
	for range 3 {
		of.add(2)
		_, err := p.Publish(t.Context())
		must(t, err)
	}
	got := read(t, home, file)
	if len(got.Lines) != 3 || len(got.Bad) != 0 || got.Cut || got.Lines[2].Event != 6 ||
		got.Lines[2].Hash != of.records[5].Hash {
		t.Fatalf("the file has %+v", got)
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, posted.Bytes()) {
		t.Errorf("posted was %s, and the file has %s", posted.Bytes(), text)
	}
	if testutil.ToFloat64(p.at) < float64(time.Now().Unix()-10) {
		t.Error("the metric has another time")
	}
	status = http.StatusInternalServerError
	if _, err := p.Publish(t.Context()); err == nil || testutil.ToFloat64(p.failed.WithLabelValues(toURL)) != 1 {
		t.Errorf("a receiver that refuses: %v", err)
	}
	if got := read(t, home, file); len(got.Lines) != 4 {
		t.Errorf("the file has %d lines", len(got.Lines))
	}
}

func TestATrailThatWasWrittenAnewIsNotSigned(t *testing.T) {
	home, of := homeOf(t), &trail{}
	of.add(1)
	o := Options{File: filepath.Join(home, "heads")}
	_, err := publisher(t, home, of, o).Publish(t.Context())
	must(t, err)
	of.refuses = &corebot.BrokenChain{Event: 1, Why: "it is another one"}
	p := publisher(t, home, of, o) // another process reads the last head in the file
	if _, err := p.Publish(t.Context()); !errors.Is(err, of.refuses) || !strings.Contains(err.Error(), "not signed") ||
		testutil.ToFloat64(p.failed.WithLabelValues(toSign)) != 1 {
		t.Errorf("it is %v", err)
	}
	p.Set(Options{File: filepath.Join(home, "other")}) // an empty file is no way around it
	if _, err := p.Publish(t.Context()); !errors.Is(err, of.refuses) {
		t.Errorf("with another file it is %v", err)
	}
	if got := read(t, home, o.File); len(got.Lines) != 1 {
		t.Errorf("the file has %d lines", len(got.Lines))
	}
}

func TestALineThatWasChangedOrCutSaysNothingAndHidesNone(t *testing.T) {
	home, of := homeOf(t), &trail{}
	file := filepath.Join(home, "heads")
	p := publisher(t, home, of, Options{File: file})
	for range 3 {
		of.add(1)
		_, err := p.Publish(t.Context())
		must(t, err)
	}
	whole, err := os.ReadFile(file)
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	second := string(lines[1])
	for name, c := range map[string]struct {
		text  string
		lines int
		bad   int
		cut   bool
	}{
		"an event":       {strings.Replace(second, `"event":2`, `"event":3`, 1), 2, 1, false},
		"a hash":         {strings.Replace(second, of.records[1].Hash, of.records[0].Hash, 1), 2, 1, false},
		"a time":         {strings.Replace(second, `"at":"2`, `"at":"3`, 1), 2, 1, false},
		"a database":     {strings.Replace(second, `"db"`, `"dc"`, 1), 2, 1, false},
		"a second field": {strings.Replace(second, `"event":2`, `"event":2,"event":3`, 1), 2, 1, false},
		"a first field":  {strings.Replace(second, `"event":2`, `"event":3,"event":2`, 1), 2, 1, false},
		"other capitals": {strings.Replace(second, `"event":2`, `"Event":2`, 1), 2, 1, false},
		"a field":        {strings.Replace(second, `"event":2`, `"event":2,"more":3`, 1), 2, 1, false},
		"the middle":     {second[:40] + "\n", 2, 1, false},
		"no end":         {second[:40], 1, 1, false}, // the third line follows at once
		"nothing":        {"", 2, 0, false},
		"much":           {strings.Repeat("x", 3*maxLine) + "\n", 2, 1, false},
		"blank":          {second + "\n\n", 3, 0, false},
	} {
		must(t, os.WriteFile(file, []byte(string(lines[0])+c.text+string(lines[2])), 0o600))
		if got := read(t, home, file); len(got.Lines) != c.lines || len(got.Bad) != c.bad || got.Cut != c.cut {
			t.Errorf("%s: %d lines, bad %v, cut %v", name, len(got.Lines), got.Bad, got.Cut)
		}
	}
	// A power cut in the last line: it is found, and the next head has a line of its own.
	must(t, os.WriteFile(file, whole[:len(whole)-30], 0o600))
	if got := read(t, home, file); len(got.Lines) != 2 || !got.Cut || len(got.Bad) != 0 {
		t.Errorf("a cut end: %+v", got)
	}
	_, err = publisher(t, home, of, Options{File: file}).Publish(t.Context())
	must(t, err)
	if got := read(t, home, file); len(got.Lines) != 3 || got.Cut || len(got.Bad) != 1 {
		t.Errorf("behind a cut line: %+v", got)
	}
}

func TestAKeyThatIsLostOrExposedOrExchangedSignsNothing(t *testing.T) {
	home, of := homeOf(t), &trail{}
	of.add(1)
	if _, err := Look(home); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new home: %v", err)
	}
	p := publisher(t, home, of, Options{File: filepath.Join(home, "heads")})
	_, err := p.Publish(t.Context())
	must(t, err)
	path := filepath.Join(home, KeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v: %v", info.Mode(), err)
	}
	must(t, os.Chmod(path, 0o644))
	if _, err := p.Publish(t.Context()); !errors.Is(err, ErrExposed) ||
		!strings.Contains(corebot.HintOf(err), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	must(t, os.Chmod(path, 0o600))
	secret, err := os.ReadFile(path)
	must(t, err)
	for _, wrong := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		must(t, os.WriteFile(path, []byte(wrong), 0o600))
		if _, err := p.Publish(t.Context()); err == nil || !strings.Contains(corebot.HintOf(err), "audit key --new") {
			t.Errorf("the key %q: %v", wrong, err)
		}
	}
	must(t, os.Remove(path))
	if _, err := p.Publish(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("a lost key: %v", err)
	}
	// The copy of the public key that somebody kept does not take the heads of another key.
	kept, err := ReadKeys(filepath.Join(home, PublicFile))
	must(t, err)
	other, err := Make(home)
	must(t, err)
	_, err = p.Publish(t.Context())
	must(t, err)
	text, err := os.ReadFile(filepath.Join(home, "heads"))
	must(t, err)
	if got, err := Read(bytes.NewReader(text), kept); err != nil || len(got.Lines) != 1 || len(got.Bad) != 1 ||
		!strings.Contains(got.Bad[0].Error(), other.ID) {
		t.Errorf("with the old key: %+v %v", got, err)
	}
	if got := read(t, home, filepath.Join(home, "heads")); len(got.Lines) != 2 {
		t.Errorf("with both keys: %+v", got)
	}
	// A key that was put in place of the home's is in no list of public keys that was kept.
	must(t, os.WriteFile(path, secret, 0o600))
	_, err = p.Publish(t.Context())
	must(t, err)
}

// evidence is an export of a trail with its heads.
func evidence(t *testing.T, of *trail, key Key, past, events int, heads ...Line) []byte {
	t.Helper()
	keys, err := Keys{key.ID: key.Public()}.Encode()
	must(t, err)
	about := Evidence{
		Version: 1, Database: "db", Past: int64(past), Events: int64(events), Heads: len(heads), PublicKeys: keys,
	}
	if past > 0 {
		about.PastHash = of.records[past-1].Hash
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	must(t, enc.Encode(about))
	for _, l := range heads {
		must(t, enc.Encode(l))
	}
	for _, r := range of.records[past : past+events] {
		must(t, enc.Encode(r))
	}
	return b.Bytes()
}

func TestEvidenceIsCheckedWithoutAHome(t *testing.T) {
	of := &trail{}
	of.add(9)
	key, err := Make(homeOf(t))
	must(t, err)
	stranger, err := Make(homeOf(t))
	must(t, err)
	at := func(n int) corebot.PublishedHead {
		return corebot.PublishedHead{
			AuditHead: corebot.AuditHead{Event: int64(n), Hash: of.records[n-1].Hash}, Database: "db", At: time.Now(),
			EventAt: time.UnixMilli(of.records[n-1].At),
		}
	}
	heads := []Line{key.Sign(at(4)), key.Sign(at(7))}
	whole := evidence(t, of, key, 2, 7, heads...)
	for _, keys := range []Keys{nil, {key.ID: key.Public()}} {
		c, err := Check(bytes.NewReader(whole), keys)
		if err != nil || c.First != 3 || c.Events != 7 || c.Head.Event != 9 || c.Proven != 7 || c.Heads != 2 ||
			c.Pinned != (keys != nil) || len(c.Signers) != 1 {
			t.Fatalf("it proves %+v: %v", c, err)
		}
	}
	if c, err := Check(bytes.NewReader(whole), Keys{stranger.ID: stranger.Public()}); err == nil {
		t.Errorf("with another key it proves %+v", c)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines { // each line taken out, and each cut off behind it
		without := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
		if c, err := Check(bytes.NewReader(without), nil); err == nil {
			t.Errorf("without line %d it proves %+v", i, c)
		}
		if c, err := Check(bytes.NewReader(bytes.Join(lines[:i], nil)), nil); err == nil {
			t.Errorf("cut off before line %d it proves %+v", i, c)
		}
	}
	// whoever writes a trail anew leaves out the heads that would tell
	unsigned := evidence(t, of, key, 2, 7)
	if c, err := Check(bytes.NewReader(unsigned), Keys{key.ID: key.Public()}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("with a key and without a head it proves %+v: %v", c, err)
	}
	if c, err := Check(bytes.NewReader(unsigned), nil); err != nil || c.Proven != 0 || c.Heads != 0 {
		t.Errorf("without a key and without a head it proves %+v: %v", c, err)
	}
	for name, other := range map[string][2]string{ // the checker would read the second; another reader might not
		"a doubled field of the head of the file": {`"past":2`, `"past":3,"past":2`},
		"a doubled field of a published head":     {`"event":4`, `"event":5,"event":4`},
		"a doubled field of an event":             {`"tool":`, `"tool":"other","tool":`},
		"a field with other capitals":             {`"tool":`, `"Tool":`},
	} {
		doubled := bytes.Replace(whole, []byte(other[0]), []byte(other[1]), 1)
		if c, err := Check(bytes.NewReader(doubled), nil); err == nil || bytes.Equal(doubled, whole) {
			t.Errorf("with %s it proves %+v", name, c)
		}
	}
	forged := &trail{records: slices.Clone(of.records[:5])}
	forged.add(4)
	forged.records[5].Tool = "shell.exec"
	rehash(forged, 5)
	broken := (*corebot.BrokenChain)(nil)
	if c, err := Check(bytes.NewReader(evidence(t, forged, key, 2, 7, heads...)), nil); !errors.As(err, &broken) ||
		broken.Event != 7 {
		t.Errorf("a trail that was computed anew proves %+v: %v", c, err)
	}
}

// rehash computes the hashes from a record on anew.
func rehash(of *trail, from int) {
	tail := of.records[from:]
	of.records = of.records[:from:from]
	for _, r := range tail {
		var before []byte
		fmt.Sscanf(of.records[len(of.records)-1].Hash, "%x", &before)
		r.Hash = fmt.Sprintf("%x", r.Sum(before))
		of.records = append(of.records, r)
	}
}

// FuzzRead: whatever a file has, no line counts that the key has not signed.
func FuzzRead(f *testing.F) {
	home := f.TempDir()
	key, err := Make(home)
	if err != nil {
		f.Fatal(err)
	}
	line, err := key.Sign(corebot.PublishedHead{
		AuditHead: corebot.AuditHead{Event: 1, Hash: strings.Repeat("ab", 32)}, Database: "db", At: time.UnixMilli(1),
	}).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line))
	f.Add(string(line[:50]))
	f.Add(strings.ToUpper(string(line)) + "\n{}\n[]\n\x00")
	keys := Keys{key.ID: key.Public()}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(strings.NewReader(text), keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got.Lines {
			again, err := l.Encode()
			if err != nil || string(again) != string(line) {
				t.Fatalf("it takes %s: %v", again, err)
			}
		}
		_, _ = Check(strings.NewReader(text), keys)
		_, _ = ParseKeys([]byte(text))
	})
}

// A process that makes a key can be killed between any two of its files.
func TestAKeyWhoseMakingWasCutOffIsNeitherLostNorUnknown(t *testing.T) {
	home := t.TempDir()
	made, err := Make(home)
	must(t, err)
	path, next := filepath.Join(home, KeyFile), filepath.Join(home, nextFile)
	must(t, os.Rename(path, next)) // the public key is stored, the key has not its place
	if k, err := Look(home); err != nil || k.ID != made.ID {
		t.Errorf("looked at %q (%v), want %q", k.ID, err, made.ID)
	}
	k, anew, err := Load(home)
	if _, gone := os.Stat(next); err != nil || anew || k.ID != made.ID || gone == nil {
		t.Errorf("loaded %q (new: %v, %v), want %q", k.ID, anew, err, made.ID)
	}
	must(t, os.Rename(path, next))
	must(t, os.Remove(filepath.Join(home, PublicFile))) // the public key is not stored yet
	if k, anew, err = Load(home); err != nil || !anew || k.ID == made.ID {
		t.Errorf("loaded %q (new: %v, %v), want another key", k.ID, anew, err)
	}
	must(t, os.Rename(path, next))
	other, err := Make(t.TempDir())
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(other.private)
	must(t, err)
	must(t, os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if _, err = Look(home); !errors.Is(err, ErrLost) {
		t.Errorf("a key that is not among the public keys: %v, want %v", err, ErrLost)
	}
}
