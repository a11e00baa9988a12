package corebot_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func valid() corebot.Message {
	return corebot.Message{
		ID: "1", Direction: corebot.Inbound, Kind: corebot.KindPrompt,
		Key:    corebot.Key{Agent: "main", Channel: "cli", Chat: "1"},
		Sender: corebot.Principal{Channel: "cli", ID: "ada"},
		Parts:  corebot.TextPart("hello"),
	}
}

func TestWhatCannotBeStoredShownOrAnsweredIsInvalid(t *testing.T) {
	long := strings.Repeat("x", corebot.MaxKeyField)
	for name, c := range map[string]struct {
		change func(*corebot.Message)
		want   error
	}{
		"as it is":                {func(m *corebot.Message) {}, nil},
		"no sender":               {func(m *corebot.Message) { m.Sender = corebot.Principal{} }, nil},
		"an id of the longest":    {func(m *corebot.Message) { m.ID = long }, nil},
		"no id":                   {func(m *corebot.Message) { m.ID = "" }, corebot.ErrInvalid},
		"an id over the longest":  {func(m *corebot.Message) { m.ID = long + "x" }, corebot.ErrInvalid},
		"an id with a newline":    {func(m *corebot.Message) { m.ID = "a\nb" }, corebot.ErrInvalid},
		"an id with a C1 control": {func(m *corebot.Message) { m.ID = "a\u0085b" }, corebot.ErrInvalid},
		"an id that is not UTF-8": {func(m *corebot.Message) { m.ID = "\xff" }, corebot.ErrInvalid},
		"a sender with an escape": {func(m *corebot.Message) { m.Sender.ID = "\x1b[2J" }, corebot.ErrInvalid},
		"no agent":                {func(m *corebot.Message) { m.Key.Agent = "" }, corebot.ErrInvalid},
		"no channel":              {func(m *corebot.Message) { m.Key.Channel = "" }, corebot.ErrInvalid},
		"no chat":                 {func(m *corebot.Message) { m.Key.Chat = "" }, corebot.ErrInvalid},
		"a thread with a NUL":     {func(m *corebot.Message) { m.Key.Thread = "\x00" }, corebot.ErrInvalid},
		"a long account":          {func(m *corebot.Message) { m.Key.Account = long + "x" }, corebot.ErrInvalid},
		"no parts":                {func(m *corebot.Message) { m.Parts = nil }, corebot.ErrInvalid},
		"nothing but white space": {
			func(m *corebot.Message) { m.Parts = corebot.TextPart(" \n\t\u2003") },
			corebot.ErrInvalid,
		},
		"an image without a text": {func(m *corebot.Message) {
			m.Parts = []corebot.Part{{
				Type: corebot.PartImage,
				Hash: "ff",
			}}
		}, nil},
		"a text that is not UTF-8": {
			func(m *corebot.Message) { m.Parts = corebot.TextPart("\xc3") },
			corebot.ErrInvalid,
		},
		"a text of many lines": {func(m *corebot.Message) { m.Parts = corebot.TextPart("a\nb\x00c") }, nil},
		"a text of the largest size": {func(m *corebot.Message) {
			m.Parts = corebot.TextPart(strings.Repeat("x",
				100))
		}, nil},
		"a text over it": {func(m *corebot.Message) {
			m.Parts = corebot.TextPart(strings.Repeat("x",
				101))
		}, corebot.ErrTooLarge},
		"metadata over it": {func(m *corebot.Message) {
			m.Metadata = corebot.Texts(map[string]string{
				"k": strings.Repeat("x", 95),
			})
		}, corebot.ErrTooLarge},
		"a display name over it": {
			func(m *corebot.Message) { m.SenderName = strings.Repeat("x", 96) },
			corebot.ErrTooLarge,
		},
	} {
		m := valid()
		c.change(&m)
		if err := m.Validate(100); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	m := valid()
	m.Parts = corebot.TextPart(strings.Repeat("x", 1<<20))
	if err := m.Validate(0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestTextIsTheTextPartsAlone(t *testing.T) {
	m := corebot.Message{Parts: []corebot.Part{
		{Type: corebot.PartText, Text: "a"},
		{Type: corebot.PartImage, Hash: "ff"},
		{Type: corebot.PartText, Text: "b"},
	}}
	if got := m.Text(); got != "a\nb" {
		t.Errorf("got %q", got)
	}
}

func TestEveryFieldThatMakesAMessageAnotherChangesItsChecksum(t *testing.T) {
	base := valid()
	base.Metadata = corebot.Texts(map[string]string{"k": "v"})
	sums := map[corebot.Checksum]string{base.Checksum(): "the message itself"}
	for name, change := range map[string]func(*corebot.Message){
		"kind":             func(m *corebot.Message) { m.Kind = corebot.KindCommand },
		"sender":           func(m *corebot.Message) { m.Sender.ID = "bob" },
		"sender's account": func(m *corebot.Message) { m.Sender.Account = "x" },
		"sender's channel": func(m *corebot.Message) { m.Sender.Channel = "x" },
		"shifted sender": func(m *corebot.Message) {
			m.Sender = corebot.Principal{
				Channel: "cl", Account: "i",
				ID: "ada",
			}
		},
		"text": func(m *corebot.Message) { m.Parts = corebot.TextPart("hello ") },
		"split text": func(m *corebot.Message) {
			m.Parts = append(corebot.TextPart("hel"),
				corebot.TextPart("lo")...)
		},
		"part's type":      func(m *corebot.Message) { m.Parts[0].Type = corebot.PartFile },
		"part's hash":      func(m *corebot.Message) { m.Parts[0].Hash = "x" },
		"part's name":      func(m *corebot.Message) { m.Parts[0].Name = "x" },
		"part's mediatype": func(m *corebot.Message) { m.Parts[0].MediaType = "x" },
		"metadata's value": func(m *corebot.Message) { m.Metadata["k"] = json.RawMessage(`"w"`) },
		"metadata's key":   func(m *corebot.Message) { m.Metadata = corebot.Texts(map[string]string{"K": "v"}) },
		"another type":     func(m *corebot.Message) { m.Metadata["k"] = json.RawMessage(`{"v":null}`) },
		"more metadata":    func(m *corebot.Message) { m.Metadata["k2"] = json.RawMessage(`""`) },
		"no metadata":      func(m *corebot.Message) { m.Metadata = nil },
		"what it answers":  func(m *corebot.Message) { m.InReplyTo = "x" },
	} {
		m := valid()
		m.Metadata = corebot.Texts(map[string]string{"k": "v"})
		change(&m)
		if other, taken := sums[m.Checksum()]; taken {
			t.Errorf("another %s has the checksum of %s", name, other)
		}
		sums[m.Checksum()] = name
	}
}

func TestWhatMakesNoOtherMessageKeepsTheChecksum(t *testing.T) {
	base := valid()
	m := base
	m.SenderName, m.ID, m.Key.Chat, m.CreatedAt = "Ada L.", "2", "2", m.CreatedAt.AddDate(1, 0, 0)
	m.Metadata = corebot.Texts(map[string]string{})
	if m.Checksum() != base.Checksum() {
		t.Error("a display name, an id, a key, a time or an empty map changed it")
	}
}

func FuzzDifferentBodiesHaveDifferentChecksums(f *testing.F) {
	f.Add("ada", "hello", "k", "v", "", "adah", "ello", "k", "v", "")
	f.Add("", "a", "ab", "c", "", "", "a", "a", "bc", "")
	f.Fuzz(func(t *testing.T, sender, text, k, v, answers, sender2, text2, k2, v2, answers2 string) {
		body := func(sender, text, k, v, answers string) corebot.Message {
			m := valid()
			m.Sender.ID, m.Parts, m.Metadata, m.InReplyTo = sender, corebot.TextPart(text),
				corebot.Texts(map[string]string{k: v}), answers
			return m
		}
		a, b := body(sender, text, k, v, answers), body(sender2, text2, k2, v2, answers2)
		if (a.Checksum() == b.Checksum()) != reflect.DeepEqual(a, b) {
			t.Fatalf("%+v and %+v", a, b)
		}
		b.SenderName = text
		if b.Checksum() != body(sender2, text2, k2, v2, answers2).Checksum() {
			t.Fatal("the display name matters")
		}
	})
}
