package mcp

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

func TestAToolReadsOnlyIfTheOperatorSaysSoOfWhatItIsNow(t *testing.T) {
	as := corebot.ToolPin{Pinned: "v1", Seen: "v1"}
	changed := corebot.ToolPin{Pinned: "v1", Seen: "v2"}
	anew := corebot.ToolPin{Pinned: "v2", Approved: "v2", Seen: "v2"}
	hinted := definition{Name: "list", Annotations: json.RawMessage(`{"readOnlyHint":true}`)}
	for name, c := range map[string]struct {
		settings, entry []string
		pin             corebot.ToolPin
		reads, repeats  bool
	}{
		"nobody says so but the server": {nil, nil, as, false, false},
		"the settings, as SERVER/TOOL":  {[]string{"mail/list"}, nil, as, true, false},
		"the settings, as models do":    {[]string{"mcp__mail__*"}, nil, as, true, false},
		"the settings, of another":      {[]string{"mail/send", "list"}, nil, as, false, false},
		"the entry":                     {nil, []string{"li*"}, as, true, true},
		"the settings, before a change": {[]string{"mail/list"}, nil, changed, false, false},
		"the entry, before a change":    {nil, []string{"list"}, changed, false, true},
		"an approval": {nil, nil, corebot.ToolPin{
			Pinned: "v1", Seen: "v1", Approved: "v1",
			ReadOnly: "v1",
		}, true, false},
		"an approval, before a change": {nil, nil, corebot.ToolPin{
			Pinned: "v1", Seen: "v2", Approved: "v1",
			ReadOnly: "v1",
		}, false, false},
		"another's approval": {nil, nil, corebot.ToolPin{
			Pinned: "v2", Seen: "v2", Approved: "v2",
			ReadOnly: "v1",
		}, false, false},
		"the settings, approved anew": {[]string{"mail/list"}, nil, anew, true, false},
	} {
		s := &server{
			spec: Spec{Name: "mail", ReadOnlyTools: c.entry},
			opts: &Options{ReadOnlyTools: c.settings, TrustFirst: true},
		}
		is := s.standing(hinted, c.pin)
		if is.reads != c.reads || is.repeats != c.repeats || !hinted.hint() {
			t.Errorf("%s: %+v", name, is)
		}
		if is.traits().Has(tools.ReadOnly) != (c.reads || c.repeats) ||
			is.traits().Has(tools.Unapproved) != !c.pin.Vouched(true) {
			t.Errorf("%s: traits %b", name, is.traits())
		}
	}
}

func TestAToolThatTakesAnAddressCarriesDataOut(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"properties":{"url":{"type":"string"}}}`:                                     true,
		`{"properties":{"pageUri":{"type":"string"}}}`:                                 true,
		`{"properties":{"a":{"type":"array","items":{"format":"uri"}}}}`:               true,
		`{"properties":{"a":{"anyOf":[{"description":"The URL of the page"}]}}}`:       true,
		`{"properties":{"to":{"properties":{"webhook":{}}}}}`:                          true,
		`{"properties":{"id":{"type":"string","description":"the number of a mail"}}}`: false,
		`{}`: false,
	} {
		d := definition{Name: "x", InputSchema: json.RawMessage(schema)}
		if d.takesAddress() != want {
			t.Errorf("%s: %v", schema, !want)
		}
	}
	s := &server{spec: Spec{Name: "mail"}, opts: &Options{EgressTools: []string{"mail/*"}}}
	if !s.standing(definition{Name: "list"}, corebot.ToolPin{}).carriesOut {
		t.Error("a tool that the settings name does not carry data out")
	}
}

func TestOnlyACallThatCarriesNothingButItsAddressSaysWhereItGoes(t *testing.T) {
	d := definition{Name: "x", InputSchema: json.RawMessage(
		`{"properties":{"url":{},"max":{},"raw":{},"body":{},"list":{}}}`)}
	for args, want := range map[string][]string{
		`{"url":"https://a.example/"}`:                            {"https://a.example/"},
		`{"url":"https://a.example/","max":5000,"raw":true}`:      {"https://a.example/"},
		`{"url":"https://a.example/","body":"the secret"}`:        nil,
		`{"url":"https://a.example/","list":["the secret"]}`:      nil,
		`{"url":"https://a.example/","max":115101099114101116}`:   nil,
		`{"url":"https://a.example/","max":0.115101099114101116}`: nil,
		`{"url":"https://a.example/","max":-1}`:                   nil,
		`{"url":"https://a.example/","the secret":true}`:          nil,
		`{"max":5}`: nil,
	} {
		if got := d.goesTo(json.RawMessage(args)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", args, got)
		}
	}
}
