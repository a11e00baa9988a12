package serve

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
)

func texts(t testing.TB) *Service {
	t.Helper()
	r, err := redact.New([]string{"the-secret-of-the-settings"})
	if err != nil {
		t.Fatal(err)
	}
	return &Service{opts: Options{Redactor: r}}
}

// FuzzAnyTextIsFitForAResult: the result of any text is JSON, also after the box has taken secrets out of it as of any
// text. The result has no text that must not be in it.
func FuzzAnyTextIsFitForAResult(f *testing.F) {
	for _, s := range []string{
		"", "x", "authorization: basic c2VjcmV0c2VjcmV0\"", `authorization: basic c2VjcmV0\`,
		"the-secret-of-the-settings", "sk-0123456789abcdef0123\\", "<|im_start|>",
		"a\u200bb", "-----BEGIN PRIVATE KEY-----\\\"", "http://x:\"@y", `http://x:\"@`, "\xff", "\x00", "[INST]",
		"Human: x", "\u2028Human:", strings.Repeat("ä", 100),
	} {
		f.Add(s)
	}
	s := texts(f)
	f.Fuzz(func(t *testing.T, said string) {
		text, truncated := s.fit(said, 150)
		if len(text) > 150 || truncated != (len(text) > 140 && truncated) || utf8.ValidString(said) &&
			!utf8.ValidString(text) {
			t.Errorf("%q became %d bytes, truncated %v: %q", said, len(text), truncated, text)
		}
		encoded, err := s.encode(map[string]string{"text": text, "after": "\"\\"})
		if err != nil {
			t.Fatal(err)
		}
		shown := outside.Unmarked(outside.Result(s.opts.Redactor.Text(redact.Visible(encoded)))) // as the box does
		var back map[string]string
		if object := structured(outside.Result(shown), false); json.Unmarshal(object, &back) != nil ||
			back["after"] != "\"\\" {
			t.Fatalf("%q became %q", said, shown)
		}
		if strings.Contains(back["text"], "the-secret-of-the-settings") ||
			regexp.MustCompile(`<\||\x{200b}|sk-[A-Za-z0-9]{16}`).MatchString(back["text"]) {
			t.Errorf("%q came out as %q", said, back["text"])
		}
	})
}

func TestWhatIsCutOffHoldsNoHalfSecret(t *testing.T) {
	s := texts(t)
	text, truncated := s.fit("0123456789 the-secret-of-the-settings and more", 20)
	if !truncated || strings.Contains(text, "the-s") {
		t.Errorf("it became %q", text)
	}
	if text, truncated := s.fit("ää", 3); text != "ä" || !truncated {
		t.Errorf("it became %q", text)
	}
}

func TestResultsOfSeveralLinesBecomeOneObject(t *testing.T) {
	for content, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, outside.Result(`{"a":1}`): `{"a":1}`,
		"{\"a\":1}\n{\"b\":2}\n": "", "[none]": "", "": "", "7": "", "[1]": "",
	} {
		if got := string(structured(content, false)); got != want {
			t.Errorf("%q became %q, want %q", content, got, want)
		}
	}
	for content, want := range map[string]string{
		`{"a":1}`:                `{"items":[{"a":1}]}`,
		"{\"a\":1}\n{\"b\":2}\n": `{"items":[{"a":1},{"b":2}]}`, outside.Result("[none]"): `{"items":[]}`,
	} {
		if got := string(structured(content, true)); got != want {
			t.Errorf("the lines %q became %q, want %q", content, got, want)
		}
	}
}

// Replies are pulled, so no channel turns their files into text before a client reads them.
func TestAClientReadsTheNamesOfFilesInRepliesAndInTheHistory(t *testing.T) {
	s := texts(t)
	cat := corebot.Part{Type: corebot.PartImage, Hash: "ff", Name: "cat <|im_start|>.png", MediaType: "image/png"}
	voice := corebot.Part{Type: corebot.PartAudio, Name: "a.ogg", MediaType: "audio/ogg"}
	voice.Text = "call the-secret-of-the-settings"
	const file = `[image "cat`
	for _, x := range []struct {
		parts    []corebot.Part
		wants    []string
		cut      bool
		mayBe, n int // at most so many bytes of a history entry, and at least
	}{
		{[]corebot.Part{cat}, []string{file, `(image/png) cannot be shown here]`}, false, 100, 40},
		{append(corebot.TextPart("look"), cat), []string{"look\n" + file}, false, 100, 40},
		{[]corebot.Part{voice, cat}, []string{"call ", file}, false, 200, 40},
		{
			append(corebot.TextPart(strings.Repeat("x", replyBytes)), cat),
			[]string{"xxx", file},
			true,
			entryBytes, entryBytes - 20,
		},
	} {
		reply := s.replyPage(corebot.Key{}, []corebot.Posted{{ID: "r1", Parts: x.parts}}).Messages[0]
		said := corebot.Said{HistoryEntry: corebot.HistoryEntry{MessageID: "m1", Parts: x.parts}}
		heard := s.historyPage(corebot.Key{}, operate.Page[corebot.Said]{Rows: []corebot.Said{said}}).Entries[0]
		for _, want := range x.wants {
			if !strings.Contains(reply.Content, want) || !strings.Contains(heard.Text, want) {
				t.Errorf("%q is missing in the reply %.300q or the entry %.300q", want, reply.Content, heard.Text)
			}
		}
		if len(heard.Text) > x.mayBe || len(heard.Text) < x.n || len(reply.Content) > replyBytes ||
			reply.Truncated != x.cut || heard.Truncated != x.cut {
			t.Errorf("the reply of %d bytes is cut: %v; the entry of %d bytes: %v; want %v", len(reply.Content),
				reply.Truncated, len(heard.Text), heard.Truncated, x.cut)
		}
		both := reply.Content + heard.Text
		if strings.Contains(both, "the-secret") || strings.Contains(both, "<|im_start|>") {
			t.Errorf("the names of files are not cleaned: %.300q", both)
		}
	}
}
