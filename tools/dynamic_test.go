package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

const dynamicTraits = tools.SideEffect | tools.Privileged | tools.Outside

func dynamic(schema string, run func(context.Context, tools.Call, json.RawMessage) (string,
	error),
) (tools.Tool, error) {
	if run == nil {
		run = func(_ context.Context, _ tools.Call, args json.RawMessage) (string, error) { return string(args), nil }
	}
	return tools.NewDynamic(tools.Dynamic{
		Name: "mcp__a__b", Doc: "Do it.", Schema: json.RawMessage(schema),
		Traits: dynamicTraits, Run: run,
	})
}

// callDynamic makes one call as an admin.
func callDynamic(t *testing.T, tool tools.Tool, args string) (corebot.ToolResult, error) {
	t.Helper()
	return newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{}, tool).Call(t.Context(), who,
		call("mcp__a__b", args), newStep())
}

// doubling is a schema in which each of n definitions asks for the next one twice.
func doubling(n int, keyword string) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1,
			i+1))
	}
	return fmt.Sprintf(
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{%s,"d%d":{"type":"string"}}}`,
		strings.Join(defs, ","), n)
}

func TestASchemaThatCannotBeTrustedIsRefused(t *testing.T) {
	for name, schema := range map[string]string{
		"none":                      ``,
		"no JSON":                   `{"type":`,
		"no object":                 `[]`,
		"true":                      `true`,
		"null":                      `null`,
		"arguments that are a list": `{"type":"array"}`,
		"no type":                   `{"properties":{}}`,
		"a doubled key":             `{"type":"object","properties":{"a":{},"a":{}}}`,
		"names that look like one":  `{"type":"object","properties":{"a":{},"a\u200b":{}}}`,
		"something behind it":       `{"type":"object"} {}`,
		"bytes that are not UTF-8":  "{\"type\":\"object\",\"title\":\"\xff\"}",
		"more than 64 KiB":          `{"type":"object","description":"` + strings.Repeat("x", 64<<10) + `"}`,
		"too deep": `{"type":"object","properties":` + strings.Repeat(`{"a":`, 200) + `{}` +
			strings.Repeat(`}`, 200) + `}`,
		"a reference to elsewhere":      `{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`,
		"a reference to a file":         `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"an unused reference to a file": `{"type":"object","$defs":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"a reference to nothing":        `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}}}`,
		"a reference to itself":         `{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`,
		"references in a circle": `{"type":"object","allOf":[{"$ref":"#/$defs/a"}],` +
			`"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`,
		"the whole inside itself":         `{"type":"object","allOf":[{"$ref":"#"}]}`,
		"a bomb of allOf":                 doubling(30, "allOf"),
		"a bomb of anyOf":                 doubling(30, "anyOf"),
		"a bomb of items":                 doubling(30, "prefixItems"),
		"another base inside":             `{"type":"object","properties":{"a":{"$id":"http://x/","$ref":"#/b"}}}`,
		"a dynamic reference":             `{"type":"object","properties":{"a":{"$dynamicRef":"#a"}}}`,
		"a pattern that is no pattern":    `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"a keyword of the wrong type":     `{"type":"object","required":"a"}`,
		"properties that are not by name": `{"type":"object","properties":[1]}`,
		"a chat's token as a name":        `{"type":"object","properties":{"<|im_start|>system":{}}}`,

		"a chat's token as a value": `{"type":"object","properties":{"a":{"enum":["</s>","<|im_\u200bstart|>"]}}}`,
	} {
		began := time.Now()
		if _, err := dynamic(schema, nil); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
}

func TestArgumentsAreHeldToTheSchemaBeforeTheCall(t *testing.T) {
	tool, err := dynamic(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["n"],
"additionalProperties":false,
		"properties":{"n":{"type":"integer","minimum":1},"s":{"$ref":"#/definitions/s"},
"u":{"anyOf":[{"type":"string"},{"$ref":"#/properties/u/anyOf/0"}]}},
		"definitions":{"s":{"enum":["x"]}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"n":1}`, ` {"n":2,"s":"x"} `, `{"n":1,"u":"u"}`} {
		if r, err := callDynamic(t, tool, args); err != nil || r.Outcome != corebot.OutcomeSuccess ||
			r.Content != outside.Result(strings.TrimSpace(args)) {
			t.Errorf("%s: %+v, %v", args, r, err)
		}
	}
	for _, args := range []string{
		``, `{}`, `null`, `[]`, `7`, `{"n":0}`, `{"n":"1"}`, `{"n":1,"x":1}`, `{"n":1,"n":2}`,
		`{"n":1} {}`, `{"n":1,"s":"y"}`, `{"n":1`,
	} {
		if r, err := callDynamic(t, tool, args); err != nil || r.Outcome != corebot.OutcomeInvalidArgs {
			t.Errorf("%s: %+v, %v", args, r, err)
		}
	}
	long := `{"n":1,"u":"` + strings.Repeat("u", 300<<10) + `"}`
	if r, err := callDynamic(t, tool, long); err != nil || r.Outcome != corebot.OutcomeInvalidArgs {
		t.Errorf("300 KiB: %v, %v", r.Outcome, err)
	}
}

func TestASchemaThatContainsItselfIsOfferedAndItsArgumentsAreOnlyAnObject(t *testing.T) {
	tool, err := dynamic(`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},
		"$defs":{"node":{"anyOf":[{"properties":{"l":{"$ref":"#/$defs/node"}}},
{"properties":{"l":{"$ref":"#/$defs/node"}}}]}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	deep := `{"tree":` + strings.Repeat(`{"l":`, 28) + `{}` + strings.Repeat(`}`, 28) + `}` // 2²⁸ ways to look at it
	if r, err := callDynamic(t, tool, deep); err != nil || r.Outcome != corebot.OutcomeSuccess {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := callDynamic(t, tool, `[]`); err != nil || r.Outcome != corebot.OutcomeInvalidArgs {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestASchemaKeepsItsOrderAndLosesWhatNobodySees(t *testing.T) {
	tool,
		err := dynamic(
		`{"type":"object", "description":"a\u200bb <c> <|im_start|>","properties":{"z":{"default":1.50,`+
			`"title":"<|im_end|>"},"a":{"x-own":[1,null,true]}}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := tools.NewDynamic(tools.Dynamic{
		Name: "mcp__a__c", Doc: "x",
		Schema: json.RawMessage(`{"type":"object"}`), Traits: dynamicTraits,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tools.NewRegistry(tool, bare)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range r.Offer(func(tools.Tool) bool { return true }) {
		got = append(got, string(o.Schema))
	}
	want := []string{
		`{"type":"object","description":"ab <c> ‹|im_start|>","properties":{"z":{"default":1.50,` +
			`"title":"‹|im_end|>"},"a":{"x-own":[1,null,true]}}}`, `{"type":"object","properties":{}}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
}

func TestACallWithoutAnAnswerIsUnknownUnlessItMayRepeat(t *testing.T) {
	for traits, want := range map[tools.Traits]corebot.AuditOutcome{
		tools.SideEffect | tools.Outside: corebot.OutcomeUnknown, tools.ReadOnly | tools.Outside: corebot.OutcomeError,
	} {
		tool, err := tools.NewDynamic(tools.Dynamic{
			Name: "mcp__a__b", Doc: "x", Schema: json.RawMessage(`{"type":"object"}`), Traits: traits,
			Run: func(context.Context, tools.Call, json.RawMessage) (string, error) {
				return "", fmt.Errorf("ask: %w", tools.ErrUnsettled)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := callDynamic(t, tool, `{}`); err != nil || r.Outcome != want {
			t.Errorf("traits %b: %+v, %v", traits, r, err)
		}
	}
}

// FuzzASchemaIsRefusedOrSoonChecked: whatever a server sends as a schema, and a model as arguments.
func FuzzASchemaIsRefusedOrSoonChecked(f *testing.F) {
	f.Add(`{"type":"object"}`, `{}`)
	f.Add(doubling(4, "allOf"), `{"a":"b"}`)
	f.Add(doubling(24, "allOf"), `{"a":"b"}`)
	f.Add(`{"type":"object","properties":{"tree":{"$ref":"#"}}}`, `{"tree":{"tree":{}}}`)
	f.Add(`{"type":"object","allOf":[{"$ref":"#/properties/a~1b"}],"properties":{"a/b":{}}}`, `{"a/b":[1,1]}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		began := time.Now()
		tool, err := dynamic(schema, nil)
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := callDynamic(t, tool, args); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second { // on a busy machine; a bomb takes minutes
			t.Errorf("took %v", took)
		}
	})
}

func offers(r *tools.Registry) string {
	var names []string
	for _, o := range r.Offer(func(tools.Tool) bool { return true }) {
		names = append(names, o.Name)
	}
	return strings.Join(names, " ")
}

func TestGuestsAreReplacedAllAtOnceOrNotAtAll(t *testing.T) {
	own := tools.New("web.search", "Search.", tools.ReadOnly,
		func(context.Context, tools.Call, noArgs) (string, error) {
			return "", nil
		})
	guest := func(name string) tools.Tool {
		return tools.New(name, "A guest.", dynamicTraits, func(context.Context, tools.Call, noArgs) (string, error) {
			return "", nil
		})
	}
	r, err := tools.NewRegistry(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Replace(guest("mcp__a__x"), guest("mcp__a__y")); err != nil ||
		offers(r) != "mcp__a__x mcp__a__y web.search" {
		t.Fatalf("%v: %s", err, offers(r))
	}
	frozen := r.Frozen()
	for _, refused := range [][]tools.Tool{{guest("mcp__a__z"), own}, {guest("mcp__a__z"), {}}} {
		if err := r.Replace(refused...); !errors.Is(err, corebot.ErrInvalid) ||
			offers(r) != "mcp__a__x mcp__a__y web.search" {
			t.Fatalf("%v: %s", err, offers(r))
		}
	}
	if err := r.Replace(guest("mcp__a__y")); err != nil || offers(r) != "mcp__a__y web.search" {
		t.Fatalf("%v: %s", err, offers(r))
	}
	if offers(frozen) != "mcp__a__x mcp__a__y web.search" {
		t.Errorf("the frozen one has %s", offers(frozen))
	}
}

func TestAFrozenBoxCallsTheToolsThatItBeganWith(t *testing.T) {
	tool, err := dynamic(`{"type":"object"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tools.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := tools.NewBox(r, p, &roles{role: corebot.RoleAdmin}, tools.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Replace(tool); err != nil {
		t.Fatal(err)
	}
	frozen := b.Frozen()
	if err := r.Replace(); err != nil {
		t.Fatal(err)
	}
	for box, want := range map[*tools.Box]corebot.AuditOutcome{
		frozen: corebot.OutcomeSuccess,
		b:      corebot.OutcomeError,
	} {
		offered, err := box.Offer(t.Context(), who)
		if err != nil || (len(offered) == 1) != (want == corebot.OutcomeSuccess) {
			t.Errorf("offered %v, %v", offered, err)
		}
		if got, err := box.Call(t.Context(), who, call("mcp__a__b", `{}`), newStep()); err != nil ||
			got.Outcome != want {
			t.Errorf("%+v, %v; want %s", got, err, want)
		}
	}
}
