package corebot_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/corebot/corebot"
)

var picture = corebot.Part{Type: corebot.PartImage, Hash: "c0ffee", Name: "cat.png", MediaType: "image/png"}

func TestATextTakesThePlaceOfAllTexts(t *testing.T) {
	text := func(s string) corebot.Part { return corebot.Part{Type: corebot.PartText, Text: s} }
	for name, c := range map[string]struct{ parts, want []corebot.Part }{
		"none":                 {nil, []corebot.Part{text("new")}},
		"one":                  {[]corebot.Part{text("old")}, []corebot.Part{text("new")}},
		"behind an attachment": {[]corebot.Part{picture, text("old")}, []corebot.Part{picture, text("new")}},
		"around an attachment": {[]corebot.Part{text("a"), picture, text("b")}, []corebot.Part{text("new"), picture}},
		"an attachment alone":  {[]corebot.Part{picture}, []corebot.Part{text("new"), picture}},
	} {
		before := slices.Clone(c.parts)
		if got := corebot.WithText(c.parts, "new"); !slices.Equal(got, c.want) || !slices.Equal(c.parts, before) {
			t.Errorf("%s: %+v, and there were %+v", name, got, c.parts)
		}
	}
}

func TestStoredPartsComeBackAndSoDoTextsOfAnEarlierVersion(t *testing.T) {
	for name, parts := range map[string][]corebot.Part{
		"a text": corebot.TextPart("hi"), "a text and an image": append(corebot.TextPart("hi"), picture),
		"an image": {picture}, "nothing": nil,
	} {
		m := corebot.Merged{Life: 7, ID: "1", Name: "Ada", Parts: parts}
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got corebot.Merged
		if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s: %s comes back as %+v, %v", name, raw, got, err)
		}
		e := corebot.HistoryEntry{Speaker: corebot.SpeakerUser, MessageID: "1", Parts: parts}
		if raw, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		var entry corebot.HistoryEntry
		if err := json.Unmarshal(raw, &entry); err != nil || !reflect.DeepEqual(entry, e) {
			t.Errorf("%s: %s comes back as %+v, %v", name, raw, entry, err)
		}
	}
	var older corebot.Merged
	if err := json.Unmarshal([]byte(`{"life":3,"id":"s","text":"and more"}`), &older); err != nil ||
		older.Text() != "and more" || older.Life != 3 {
		t.Errorf("the merge of an earlier version is %+v, %v", older, err)
	}
}

func TestWhatWasSaidKeepsItsPlaceInJSON(t *testing.T) {
	said := corebot.Said{
		HistoryEntry: corebot.HistoryEntry{
			Speaker: corebot.SpeakerUser, Parts: []corebot.Part{{Type: corebot.PartText, Text: "look"}, picture},
			MessageID: "1",
		},
		Place: "2.3.4",
	}
	b, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	var got corebot.Said
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, said) {
		t.Errorf("%s comes back as %+v, %v", b, got, err)
	}
	if err := json.Unmarshal([]byte(`{"speaker":"user","text":"hi"}`), &got); err != nil || got.Place != "" ||
		got.Text() != "hi" {
		t.Errorf("of an earlier version it comes back as %+v, %v", got, err)
	}
}
