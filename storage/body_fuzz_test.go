package storage

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// anyMessage has something of everything, valid or not.
func anyMessage(id, text, name, key, value, answers string, image bool) corebot.Message {
	m := testMessage("chat", id)
	m.SenderName, m.InReplyTo, m.Parts = name, answers, corebot.TextPart(text)
	if image {
		m.Parts = append(m.Parts, corebot.Part{Type: corebot.PartImage, Hash: value, Name: key, MediaType: text})
	}
	if key != "" || value != "" {
		m.Metadata = corebot.Texts(map[string]string{key: value})
	}
	return m
}

// readBack packs a message as publish does and reads it as a claim does.
func readBack(m corebot.Message) (corebot.Message, error) {
	p := pack([]corebot.Message{m})
	return unpack(p[0].body, m.Direction, m.Key, m.Kind, p[0].checksum[:])
}

func FuzzABodyComesBackAsItWentIn(f *testing.F) {
	f.Add("1", "hello", "Ada", "k", "v", "", false)
	f.Add("", "", "", "", "", "", true)
	f.Add("1", "caf\xe9 \xff", "\xc3", "\xff", "\xfe", "\xed\xa0\x80", true)
	f.Add("1", "\ufffd <&>\u2028\u2029\x00\x7f", "\\ufffd", `\ufffd`, `"\`, "1/1/0", false)
	f.Fuzz(func(t *testing.T, id, text, name, key, value, answers string, image bool) {
		m := anyMessage(id, text, name, key, value, answers, image)
		got, err := readBack(m)
		if err != nil {
			t.Fatalf("%+v is damaged: %v", m, err)
		}
		if utf8.ValidString(id+"|"+text+"|"+name+"|"+key+"|"+value+"|"+answers) && !reflect.DeepEqual(got, m) {
			t.Fatalf("got  %#v\nwant %#v", got, m)
		}
		if again, err := readBack(got); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("what came back does not come back: %#v, %v", again, err)
		}
	})
}

func FuzzADamagedBodyIsNeverTakenForAnother(f *testing.F) {
	f.Add("hello", "k", "v", uint(20), byte(1))
	f.Add("{}", "", "", uint(0), byte(0x80))
	f.Fuzz(func(t *testing.T, text, key, value string, at uint, flip byte) {
		m := anyMessage("1", strings.ToValidUTF8(text, ""), "Ada", strings.ToValidUTF8(key, ""),
			strings.ToValidUTF8(value, ""), "", true)
		p := pack([]corebot.Message{m})
		body := p[0].body
		body[at%uint(len(body))] ^= flip
		got, err := unpack(body, m.Direction, m.Key, m.Kind, p[0].checksum[:])
		if err == nil && got.Checksum() != m.Checksum() {
			t.Fatalf("%q is taken for %+v", body, got)
		}
		if cut, err := unpack(body[:at%uint(len(body))], m.Direction, m.Key, m.Kind, p[0].checksum[:]); err == nil {
			t.Fatalf("a body that is cut short is taken for %+v", cut)
		}
	})
}

func FuzzAStepComesBackAsItWentIn(f *testing.F) {
	f.Add("c1", "fs.read", `{"path":"."}`, "a file", "text")
	f.Add("", "", "not JSON \xff", "\xff", "")
	f.Fuzz(func(t *testing.T, id, tool, args, content, text string) {
		call := corebot.ToolCall{ID: id, Tool: tool, Args: []byte(args)}
		for _, s := range []corebot.Step{
			{Kind: corebot.StepTool, State: corebot.StepIntended, Call: &call},
			{
				Kind: corebot.StepTool, State: corebot.StepDone, Call: &call,
				Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: content},
			},
			{Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{
				Text:  text,
				Calls: []corebot.ToolCall{call},
			}},
		} {
			row, err := encodeStep(s)
			if err != nil {
				t.Fatalf("%+v cannot be journaled: %v", s, err)
			}
			got, err := scanStep(stored(row))
			if err != nil {
				t.Fatalf("%+v is damaged: %v", s, err)
			}
			again, err := encodeStep(got) // bytes that are not UTF-8 are replaced the first time
			if err != nil {
				t.Fatalf("%+v cannot be journaled again: %v", got, err)
			}
			if twice, err := scanStep(stored(again)); err != nil || !reflect.DeepEqual(twice, got) {
				t.Fatalf("%+v came back as %+v, %v", got, twice, err)
			}
			if utf8.ValidString(id+"|"+tool+"|"+args+"|"+content+"|"+text) &&
				(row.request != again.request || row.result != again.result) {
				t.Fatalf("%q %q came back as %q %q", row.request, row.result, again.request, again.result)
			}
		}
	})
}

// stored is a step's row as it is read.
func stored(r stepRow) values {
	return values{int64(r.Position), string(r.Kind), string(r.State), r.request, r.result, int64(0), int64(0)}
}

func FuzzDifferentIDsAndKeysAreDifferentMessages(f *testing.F) {
	f.Add("1", "a", "", "1", "a", "")
	f.Add("1", "a:b", "", "1", "a", "b")
	f.Add("ä", "A", "x", "a\u0308", "a", "x")
	f.Add("1 ", "a", "", "1", "a", "")
	db := openTest(f, f.TempDir())
	run := 0
	f.Fuzz(func(t *testing.T, id, chat, thread, id2, chat2, thread2 string) {
		run++
		account := fmt.Sprint(run) // a name space of its own for each pair
		message := func(id, chat, thread string) corebot.Message {
			m := testMessage(chat, id)
			m.Key.Account, m.Key.Thread, m.Parts = account, thread, corebot.TextPart("the same text")
			return m
		}
		a, b := message(id, chat, thread), message(id2, chat2, thread2)
		if a.Validate(0) != nil || b.Validate(0) != nil {
			return
		}
		r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{a, b}, corebot.Limits{})
		must(t, err)
		same := a.ID == b.ID && a.Key == b.Key
		if r[0].Err != nil || r[1].Err != nil || r[0].Duplicate || r[1].Duplicate != same ||
			(r[0].Life == r[1].Life) != same {
			t.Fatalf("%q in %v and %q in %v: %+v", a.ID, a.Key, b.ID, b.Key, r)
		}
	})
}
