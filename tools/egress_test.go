package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// knows is a turn that knows two addresses, one of them from a link.
type knows struct{}

func (knows) Knows(address string) (known, follows bool) {
	return address == "said" || address == "linked", address == "linked"
}

type addressArgs struct {
	URL string `json:"url"`
}

// fetching is a tool that goes where its argument says, and brings a page with a link.
func fetching(opts ...tools.Option[addressArgs]) tools.Tool {
	return tools.New("web.fetch", "A tool for tests.", tools.ReadOnly|tools.Outside|tools.Egress|tools.Links,
		func(context.Context, tools.Call, addressArgs) (string, error) {
			return "see [this](https://a.example/x)", nil
		}, opts...)
}

func TestNobodyIsAskedAboutACallThatCannotRun(t *testing.T) {
	able := tools.Able(func(_ tools.Call, a addressArgs) error {
		if strings.HasPrefix(a.URL, "file:") {
			return errors.New("the scheme is refused")
		}
		return nil
	})
	box := newBox(t, normal, tools.Options{Approvers: someone(true)}, fetching(goesToURL(), able))
	by := who
	by.Taint = "a page"
	s := newStep()
	r, err := box.Call(t.Context(), by, call("web.fetch", `{"url":"file:///etc/passwd"}`), s)
	if err != nil || len(s.asked) > 0 || r.Outcome != corebot.OutcomeError ||
		!strings.Contains(r.Content, "the scheme is refused") {
		t.Errorf("a call that cannot run: %+v, %v; asked %+v", r, err, s.asked)
	}
	s = newStep() // nor beside a call that can
	s.inAnswer.Behind = []corebot.ToolCall{call("web.fetch", `{"url":"file:///etc/passwd"}`)}
	waits := (*corebot.AwaitsApproval)(nil)
	if _, err = box.Call(t.Context(), by, call("web.fetch", `{"url":"evil"}`), s); !errors.As(err, &waits) ||
		len(s.asked) != 1 {
		t.Errorf("a call beside it: %v; asked %+v", err, s.asked)
	}
}

func goesToURL() tools.Option[addressArgs] {
	return tools.GoesTo(func(_ tools.Call, a addressArgs) []string { return []string{a.URL} })
}

// TestACallThatCarriesDataOutOfATaintedTurnWaits: an address that the turn knows tells nothing to whoever is behind it.
func TestACallThatCarriesDataOutOfATaintedTurnWaits(t *testing.T) {
	for name, c := range map[string]struct {
		tool      tools.Tool
		url       string
		clean     bool
		addresses corebot.Addresses
		waits     bool
		follows   bool
	}{
		"an address that stood nowhere":    {fetching(goesToURL()), "evil", false, knows{}, true, false},
		"an address of the user's words":   {fetching(goesToURL()), "said", false, knows{}, false, false},
		"an address of a link":             {fetching(goesToURL()), "linked", false, knows{}, false, true},
		"a turn that knows no address":     {fetching(goesToURL()), "said", false, nil, true, false},
		"a tool that does not say where":   {fetching(), "said", false, knows{}, true, false},
		"any address, of an untainted one": {fetching(goesToURL()), "evil", true, nil, false, false},
	} {
		box := newBox(t, normal, tools.Options{Approvers: someone(true)}, c.tool)
		s, by := newStep(), who
		s.inAnswer.Addresses = c.addresses
		if !c.clean {
			by.Taint = "a page"
		}
		r, err := box.Call(t.Context(), by, call("web.fetch", `{"url":"`+c.url+`"}`), s)
		waits := (*corebot.AwaitsApproval)(nil)
		if errors.As(err, &waits) != c.waits || c.waits && s.asked[0].Rule != policy.RuleApproveEgress {
			t.Errorf("%s: %v, asked %+v", name, err, s.asked)
		}
		if !c.waits && (r.Follows != c.follows || r.Links != "https://a.example/x") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestATaintedTurnReadsWhatWasDeclaredReadOnly: as long as its principal alone reads the answer, and the tool is the
// one that the operator has read.
func TestATaintedTurnReadsWhatWasDeclaredReadOnly(t *testing.T) {
	for name, c := range map[string]struct {
		traits    tools.Traits
		made      string
		overheard bool
		waits     bool
	}{
		"reading":                        {tools.ReadOnly, "v1", false, false},
		"changing":                       {tools.SideEffect, "v1", false, true},
		"reading where others hear it":   {tools.ReadOnly, "v1", true, true},
		"reading by unapproved words":    {tools.ReadOnly | tools.Unapproved, "v1", false, true},
		"reading by another description": {tools.ReadOnly, "v0", false, true},
		"reading from any address":       {tools.ReadOnly | tools.Egress, "v1", false, true},
	} {
		tool, err := tools.NewDynamic(tools.Dynamic{
			Name: "mcp__mail__list", Doc: "A tool.", Schema: json.RawMessage(`{"type":"object"}`),
			Traits: c.traits | tools.Outside | tools.Privileged, Made: c.made,
			Definition: func() string { return "v1" },
			Run:        func(context.Context, tools.Call, json.RawMessage) (string, error) { return "a mail", nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		box := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{Approvers: someone(true)}, tool)
		by := who
		by.Taint, by.Overheard = "a page", c.overheard
		_, err = box.Call(t.Context(), by, call("mcp__mail__list", `{}`), newStep())
		if waits := (*corebot.AwaitsApproval)(nil); errors.As(err, &waits) != c.waits || !c.waits && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAContainedCallOfATaintedTurnWaitsOnlyWhereOthersRead: what it reads is its own chat's, but silent members of a
// group get the answer.
func TestAContainedCallOfATaintedTurnWaitsOnlyWhereOthersRead(t *testing.T) {
	contained := tools.Contained(func(_ tools.Call, a addressArgs) bool { return a.URL == "" })
	tool := tools.New("shell.exec", "A tool for tests.", tools.SideEffect|tools.Privileged,
		func(context.Context, tools.Call, addressArgs) (string, error) { return "ran", nil }, contained)
	for _, c := range []struct {
		args             string
		overheard, waits bool
	}{
		{`{"url":""}`, false, false},
		{`{"url":""}`, true, true},
		{`{"url":"network"}`, false, true},
	} {
		box := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{Approvers: someone(true)}, tool)
		by := who
		by.Taint, by.Overheard = "a page", c.overheard
		_, err := box.Call(t.Context(), by, call("shell.exec", c.args), newStep())
		if waits := errors.As(err, new(*corebot.AwaitsApproval)); waits != c.waits || err != nil && !waits {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
