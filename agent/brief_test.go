package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm"
)

func TestADescriptionIsShortenedToItsFirstSentence(t *testing.T) {
	for said, want := range map[string]string{
		"Read a file. Paths are relative.":           "Read a file.",
		"Read a file, e.g. notes.txt. It says more.": "Read a file, e.g. notes.txt.",
		"Read\na file.\nMore.":                       "Read a file.",
		"No end of a sentence\n\nAnother paragraph.": "No end of a sentence",
		"":                               "",
		"Version 1.5 of it. Über alles.": "Version 1.5 of it.",
		strings.Repeat("é", 200) + " is too long. More": strings.Repeat("é", 80) + "…",
	} {
		if got := firstSentence(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestASchemaIsShortenedByItsProseAndNothingElse(t *testing.T) {
	for schema, want := range map[string]string{
		//
		`{"type":"object","description":"x","properties":{"path":{"type":"string","description":"where"}},` +
			`"required":["path"]}`: `{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}`,
		// a property may have any name, and what is data stays
		//
		`{"type":"object","properties":{"description":{"type":"string","title":"T"},"title":{"enum":["description",` +
			`{"title":"x"}],"default":{"description":"y"}}}}`: `{"properties":{"description":{"type":"string"},` +
			`"title":{"default":{"description":"y"},"enum":["description",{"title":"x"}]}},"type":"object"}`,
		// schemas inside schemas
		//
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"null","description":"x"},{"$ref":"#/$defs/d"}]},` +
			`"b":{"items":{"title":"x","maximum":12345678901234567890}}},"$defs":{"d":{"description":"x",` +
			`"not":{"examples":[1]}}}}`: `{"$defs":{"d":{"not":{}}},"properties":{"a":{"anyOf":[{"type":"null"},` +
			`{"$ref":"#/$defs/d"}]},"b":{"items":{"maximum":12345678901234567890}}},"type":"object"}`,
		`{"type":"object","properties":{},"additionalProperties":false,` +
			`"description":"<x>"}`: `{"additionalProperties":false,` +
			`"properties":{},"type":"object"}`,

		``:       ``,
		`{"type`: `{"type`,
	} {
		got := briefSchema(json.RawMessage(schema))
		if string(got) != want {
			t.Errorf("%s\nbecame %s\nwant   %s", schema, got, want)
		}
		if again := briefSchema(got); string(again) != string(got) {
			t.Errorf("%s becomes %s when it is shortened again", got, again)
		}
	}
}

func TestToolsAreShortenedWhereTheyTakeTooMuchOfThePrompt(t *testing.T) {
	long := []llm.Tool{
		{
			Name: "b", Description: "Does b. " + strings.Repeat("And more. ", 500),
			Schema: json.RawMessage(`{"type":"object","description":"x"}`),
		},
		{Name: "a", Description: "Does a.", Unapproved: true},
	}
	whole, brief := ToolTokens(llm.Estimate{}, long)
	if brief*10 > whole {
		t.Fatalf("%d tokens become %d", whole, brief)
	}
	small := &turn{Agent: &Agent{}, meter: newMeter(llm.Estimate{}), room: 3*whole - 1}
	for range 2 {
		got := small.sized(long)
		if got[0].Description != "Does b." || string(got[0].Schema) != `{"type":"object"}` || got[0].Name != "b" ||
			!got[1].Unapproved {
			t.Errorf("in a small context: %+v", got)
		}
		if again := small.sized(got); again[0].Description != got[0].Description {
			t.Errorf("shortened again: %+v", again)
		}
	}
	large := &turn{Agent: small.Agent, meter: small.meter, room: 4 * whole}
	if got := large.sized(long); got[0].Description != long[0].Description {
		t.Errorf("in a large context: %+v", got)
	}
	if got := large.sized(nil); len(got) != 0 {
		t.Errorf("of no tools: %+v", got)
	}
}

// lessons is a tokenizer that learns: it counts so many tokens a byte, and notes how often it counted a schema.
type lessons struct {
	each, schemas int
}

func (l *lessons) Count(text string) int {
	if strings.HasPrefix(text, "{") {
		l.schemas++
	}
	return l.each * len(text)
}

func (l *lessons) Due() bool      { return false }
func (l *lessons) Learn(_, _ int) {}
func (l *lessons) Lesson() uint64 { return uint64(l.each) }

func TestToolsAreCountedOnceForAllTurnsUntilTheTokenizerHasLearned(t *testing.T) {
	count := &lessons{each: 1}
	agent := &Agent{}
	offer := func(name string) (*turn, []llm.Tool) {
		one := &turn{Agent: agent, meter: newMeter(count), room: 1_000}
		return one, one.sized([]llm.Tool{{Name: name, Schema: json.RawMessage(`{"type":"object"}`)}})
	}
	cost := func(name string) int {
		one, tools := offer(name)
		return one.costOf(view{tools: tools})
	}
	first := cost("of normal senders")
	cost("of admins")
	if again := cost("of normal senders"); again != first || count.schemas != 2 {
		t.Errorf("%d tokens, then %d; two sets were counted %d times", first, again, count.schemas)
	}
	count.each = 3
	if now, want := cost("of normal senders"), 3*(first-messageOverhead)+messageOverhead; now != want {
		t.Errorf("%d tokens after the lesson, want %d", now, want)
	}
}

func TestARequestFitsByItsToolsTokensAndItsMessagesBytes(t *testing.T) {
	count := &lessons{each: 1}
	one := &turn{Agent: &Agent{}, meter: newMeter(count), room: 1_000}
	tools := one.sized([]llm.Tool{{Name: "a", Schema: json.RawMessage(`{"type":"object"}`)}})
	v := view{tools: tools, present: []llm.Message{{Text: "{ a message }"}}}
	most := one.costOf(v)
	before := count.schemas
	if !one.fits(v, most) || count.schemas != before {
		t.Errorf("%d tokens do not fit, or the message was counted", most)
	}
	if one.fits(v, most-1) {
		t.Errorf("%d tokens fit where there is room for %d", most, most-1)
	}
}
