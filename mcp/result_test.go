package mcp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
	"github.com/rs/zerolog"
)

// shelf keeps artifacts by name.
type shelf map[string]string

func (s shelf) Save(_ context.Context, _ corebot.Caller, name, content string) (string, error) {
	s[name] = content
	return "chats/a/artifacts/" + name, nil
}

// fullShelf keeps nothing.
type fullShelf struct{}

func (fullShelf) Save(context.Context, corebot.Caller, string, string) (string, error) {
	return "", errors.New("no room")
}

func TestAFileThatCannotBeKeptIsInTheLog(t *testing.T) {
	var log bytes.Buffer
	r := reader{artifacts: fullShelf{}, ctx: t.Context(), log: zerolog.New(&log)}
	got, err := r.read([]byte(`{"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}`))
	if err != nil || got != "[image, image/png, 2 bytes; it could not be kept]" ||
		!strings.Contains(log.String(), "no room") {
		t.Errorf("%q, %v; the log has %s", got, err, log.String())
	}
}

func TestEveryKindOfContentBecomesTextOrAFile(t *testing.T) {
	kept := shelf{}
	r := reader{artifacts: kept, ctx: t.Context()}
	for raw, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: "a\n\nb",
		`{"content":[]}`: "(the tool returned nothing)",

		`{"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}`: "[image, image/png, 2 bytes; it is " +
			"in chats/a/artifacts/mcp-8f434346648f6b96.png]",

		`{"content":[{"type":"audio","mimeType":"../../x","data":"aGk="}]}`: "[audio, of an unknown type, 2 bytes; " +
			"it is in chats/a/artifacts/mcp-8f434346648f6b96.bin]",

		`{"content":[{"type":"image","mimeType":"image/png","data":"!"}]}`: "[image that cannot be decoded]",

		`{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"inside"}}]}`: "[resource " +
			"file:///x]\ninside",

		`{"content":[{"type":"resource","resource":{"uri":"x:y","blob":"aGk=",` +
			`"mimeType":"application/pdf"}}]}`: "[resource x:y]\n[file, application/pdf, 2 " +
			"bytes; it is in chats/a/artifacts/mcp-8f434346648f6b96.pdf]",

		`{"content":[{"type":"resource","resource":{"uri":"x:y"}}]}`: "[resource x:y, without content]",
		`{"content":[{"type":"resource"}]}`:                          "[a resource without content]",

		`{"content":[{"type":"resource_link","uri":"x:y","name":"n","description":"d"}]}`: "[resource x:y: n: d]",

		`{"content":[{"type":"hologram"},{"type":"text","text":"a"},7]}`: "[a part of the result is of the unknown " +
			"type \"hologram\"]\n\na\n\n[a part of the result cannot be read]",

		`{"content":[],"structuredContent":{"a":1}}`:                                       `{"a":1}`,
		`{"content":[{"type":"text","text":"{ \"a\": 1 }"}],"structuredContent":{"a":1}}`:  `{ "a": 1 }`,
		`{"content":[{"type":"text","text":"one"}],"structuredContent":{"content":"one"}}`: "one",
		`{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}`:           "one\n\n{\"n\":1}",
	} {
		if got, err := r.read([]byte(raw)); err != nil || got != want {
			t.Errorf("%s\n got %q, %v\nwant %q", raw, got, err, want)
		}
	}
	if kept["mcp-8f434346648f6b96.png"] != "hi" {
		t.Errorf("kept are %q", kept)
	}
	said := (*toolError)(nil)
	if _, err := r.read([]byte(`{"isError":true,"content":[{"type":"text","text":"no"}]}`)); !errors.As(err, &said) ||
		err.Error() != "no" {
		t.Errorf("an error: %v", err)
	}
	if _, err := r.read([]byte(`[]`)); !errors.Is(err, tools.ErrUnsettled) {
		t.Errorf("no result: %v", err)
	}
}

func TestOfWhatAProgramSaysALittleIsLoggedWithoutItsSecrets(t *testing.T) {
	var out bytes.Buffer
	secrets, err := redact.New([]string{"hush-hush-hush"})
	if err != nil {
		t.Fatal(err)
	}
	logOutput(strings.NewReader("key hush-hush-hush\x1b[31m\n"+strings.Repeat("x", 100_000)+"\n"+
		strings.Repeat("line\n", 10_000)), zerolog.New(&out), secrets, func(string) {})
	got := out.String()
	if strings.Contains(got, "hush") || strings.Contains(got, `\u001b`) || strings.Count(got, "\n") != linesLogged ||
		len(got) > 10_000 {
		t.Errorf("the log has %d bytes: %.500s", len(got), got)
	}
}

func TestTheLastWordsOfAProgramAreItsNewestErrorElseItsNewestLine(t *testing.T) {
	secrets, err := redact.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]string{
		"":                           "",
		"starting\nlistening\n":      "listening",
		"Error: no module\n  at x\n": "Error: no module",
		"panic: boom\n\ngoroutine 1": "panic: boom",
		"an error\nTypeError: y\nz":  "TypeError: y",
	} {
		w := lastWords{read: make(chan struct{})}
		logOutput(strings.NewReader(said), zerolog.Nop(), secrets, w.hear)
		close(w.read)
		if got := w.say(); got != want {
			t.Errorf("of %q the last words are %q, want %q", said, got, want)
		}
	}
}

func TestALineIsReadWholeOrNotAtAll(t *testing.T) {
	l := newLines(strings.NewReader(strings.Repeat("a", 20_000)+"\nshort\nlast"), 30_000)
	for _, want := range []int{20_001, 6, 4} {
		if line, err := l.next(); err != nil || len(line) != want {
			t.Errorf("%d bytes, %v, want %d", len(line), err, want)
		}
	}
	if line, err := l.next(); err == nil {
		t.Errorf("behind the end: %q", line)
	}
	if _, err := newLines(strings.NewReader(strings.Repeat("a", 100)), 99).next(); err == nil {
		t.Error("a line that is too long was taken")
	}
}

func TestAFloodIsFoundByNumberAndBySize(t *testing.T) {
	now := time.Unix(0, 0)
	for size, most := range map[int]int{100: floodUnits, 10 * floodUnit: floodUnits / 11} {
		var f flood
		for i := range 3 * floodUnits { // as fast as a server may be for ever
			if err := f.add(now.Add(time.Duration(i)*2*floodWindow/time.Duration(most)), size); err != nil {
				t.Fatalf("message %d of %d bytes: %v", i, size, err)
			}
		}
		f = flood{}
		n := 0
		for f.add(now, size) == nil {
			n++
		}
		if n != most {
			t.Errorf("of %d bytes %d messages at once were taken, want %d", size, n, most)
		}
	}
}
