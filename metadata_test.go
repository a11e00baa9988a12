package corebot_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestMetadataOfEveryTypeComesBackAsItWentIn(t *testing.T) {
	m := valid()
	m.Metadata = corebot.Texts(map[string]string{"text": "<a> \u2028 \x7f \"", "": ""})
	for name, value := range map[string]string{
		"number": `1.50`, "none": `null`, "yes": `true`, "list": `[1,"x"]`,
		"object": `{"a":{}}`,
	} {
		m.Metadata[name] = json.RawMessage(value)
	}
	body, sum := m.EncodeBody()
	got := corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(body, sum[:], &got); err != nil ||
		!maps.EqualFunc(got.Metadata, m.Metadata, slices.Equal) {
		t.Errorf("it came back as %s, %v; want %s", got.Metadata, err, m.Metadata)
	}
	if text, ok := got.Metadata.Text("text"); !ok || text != "<a> \u2028 \x7f \"" {
		t.Errorf("the text is %q, %v", text, ok)
	}
	if text, ok := got.Metadata.Text("number"); ok {
		t.Errorf("the number is the text %q", text)
	}
}

func TestATextAndTheValueThatItSpellsAreTwoBodies(t *testing.T) {
	sums := map[corebot.Checksum]string{}
	for _, value := range []string{`1`, `"1"`, `1.0`, `null`, `"null"`, `[]`, `"[]"`} {
		m := valid()
		m.Metadata = corebot.Metadata{"k": json.RawMessage(value)}
		if same, found := sums[m.Checksum()]; found {
			t.Errorf("%s and %s are one body", value, same)
		}
		sums[m.Checksum()] = value
	}
}

func TestTheHistoryKeepsSoMuchMetadataOfAMessage(t *testing.T) {
	few := corebot.Texts(map[string]string{"a": "x"})
	if kept := few.Kept(); !maps.EqualFunc(kept, few, slices.Equal) {
		t.Errorf("of a little there is %s", kept)
	}
	many := corebot.Texts(map[string]string{
		"1": strings.Repeat("x", 10<<10), "2": strings.Repeat("\"", 10<<10), "3": "short",
		"4": strings.Repeat("y", 20<<10),
	})
	kept := many.Kept()
	if n := len(kept.String()); n > corebot.MaxKeptMetadata {
		t.Errorf("%d bytes are kept", n)
	}
	if names := slices.Sorted(maps.Keys(kept)); !slices.Equal(names, []string{"1", "3", "corebot_left_out"}) ||
		string(kept["corebot_left_out"]) != "2" {
		t.Errorf("kept are %v: %.100s", names, kept["corebot_left_out"])
	}
	if len(many) != 4 {
		t.Error("the message lost its own metadata")
	}
}
