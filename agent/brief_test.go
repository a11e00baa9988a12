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
	small := &turn{Agent: &Agent{}, meter: newMeter(llm.Estimate{}), room: 4*whole - 1}
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
