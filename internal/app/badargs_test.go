package app

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// watched is a journal that notices a call that runs.
type watched struct {
	t        *testing.T
	what     string
	finished int
	last     corebot.AuditEvent
}

func (w *watched) ID() string                 { return "m/1/0" }
func (w *watched) State() corebot.StepState   { return "" }
func (w *watched) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

func (*watched) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (w *watched) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{Approval: asks[0].Approval}, nil
}

func (w *watched) Intend(context.Context, corebot.AuditEvent) error {
	w.t.Errorf("%s: it was about to run", w.what)
	return nil
}

func (w *watched) Finish(_ context.Context, _ corebot.ToolResult, e corebot.AuditEvent) error {
	w.finished++
	w.last = e
	return nil
}

func (w *watched) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	w.t.Errorf("%s: it took effect", w.what)
	return nil
}

// realTools are all tools of the program, as its configuration makes them, in the hands of an admin.
func realTools(t *testing.T) (*tools.Box, corebot.Caller, []llm.Tool) {
	t.Helper()
	home := t.TempDir()
	c := config.Defaults()
	c.Home, c.Webhook.Enabled = home, true
	db, err := storage.Open(t.Context(), DataDir(home), storage.Options{})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = db.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended; must(t, db.Close()) })
	p := place{home, corebot.DefaultAgent}
	w, err := openWorkspace(p, rootfs.Quota{}, nil, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { must(t, w.root.Close()) })
	a := &App{config: c, Store: db, log: zerolog.Nop()}
	rules, err := policy.New(policy.Options{ShellEnabled: true})
	must(t, err)
	u := &agentUnit{policy: rules, entry: c.AgentList()[0], place: p, notes: w}
	must(t, a.makeTools(u, prometheus.NewRegistry()))
	box := u.box
	who := corebot.Caller{
		Key:       corebot.Key{Agent: "main", Channel: "cli", Account: "local", Chat: "x"},
		Principal: corebot.Principal{Channel: "cli", Account: "local", ID: "0"},
	}
	must(t, storage.NewGrants(db).Grant(t.Context(), corebot.Grant{
		Principal: who.Principal, Role: corebot.RoleAdmin,
		By: "operator",
	}))
	offered, err := box.Offer(t.Context(), who)
	must(t, err)
	if len(offered) < 12 {
		t.Fatalf("only %d tools are offered", len(offered))
	}
	return box, who, offered
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shape is what the test needs to know of a tool's schema.
type shape struct {
	Properties map[string]struct {
		Type  any `json:"type"`
		Items any `json:"items"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// valid are arguments with every field, each of its type.
func (s shape) valid(t *testing.T) map[string]any {
	t.Helper()
	args := map[string]any{}
	for name, p := range s.Properties {
		types, ok := p.Type.([]any)
		if !ok {
			types = []any{p.Type}
		}
		switch {
		case slices.Contains(types, any("string")):
			args[name] = "a"
		case slices.Contains(types, any("integer")), slices.Contains(types, any("number")):
			args[name] = 1
		case slices.Contains(types, any("boolean")):
			args[name] = true
		case slices.Contains(types, any("array")):
			args[name] = []any{"a"}
		case slices.Contains(types, any("object")):
			args[name] = map[string]any{}
		default:
			t.Fatalf("a field %q of type %v", name, p.Type)
		}
	}
	return args
}

// bad are arguments of a tool that are not valid, by what is wrong with them.
func (s shape) bad(t *testing.T) map[string]string {
	t.Helper()
	valid := s.valid(t)
	spell := func(change func(map[string]any)) string {
		args := map[string]any{}
		for k, v := range valid {
			args[k] = v
		}
		change(args)
		raw, err := json.Marshal(args)
		must(t, err)
		return string(raw)
	}
	good := spell(func(map[string]any) {})
	bad := map[string]string{
		"an extra field":        spell(func(a map[string]any) { a["no_such_field"] = 1 }),
		"an extra __proto__":    spell(func(a map[string]any) { a["__proto__"] = map[string]any{"role": "admin"} }),
		"trailing data":         good + good,
		"a trailing word":       good + " x",
		"half of it":            good[:len(good)-1],
		"an array around it":    "[" + good + "]",
		"a string of it":        fmt.Sprintf("%q", good),
		"depth 10,000":          `{"a":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"depth 10,000, open":    strings.Repeat(`{"a":`, 10_000),
		"a megabyte of a name":  `{"` + strings.Repeat("x", 1<<20) + `":1}`,
		"more than two of them": `{"a":"` + strings.Repeat("x", 2<<20) + `"}`,
		"invalid UTF-8":         strings.Replace(good, "{", "{\"a\xff\":1,", 1),
		"a comment":             "/* */" + good,
		"a byte order mark":     "\ufeff" + good,
		"NaN":                   `{"a":NaN}`,
	}
	if strings.Contains(good, `:"a"`) {
		bad["invalid UTF-8 in a value"] = strings.Replace(good, `:"a"`, ":\"a\xff\"", 1)
	}
	for _, not := range []string{"null", "1", `"a"`, "true", "[]", "{", "x", "\x00", "'{}'"} {
		bad["instead of an object "+not] = not
	}
	for name := range s.Properties {
		field, err := json.Marshal(valid[name])
		must(t, err)
		bad[name+" doubled"] = strings.Replace(good, "{", fmt.Sprintf("{%q:%s,", name, field), 1)
		bad[name+" in another case"] = spell(func(a map[string]any) {
			delete(a,
				name)
			a[strings.ToUpper(name)] = valid[name]
		})
		bad[name+" deep"] = fmt.Sprintf(`{%q:%s%s}`, name, strings.Repeat("[", 10_000), strings.Repeat("]", 10_000))
		for _, wrong := range []any{nil, "a", 1, 1.5, 1e300, true, []any{}, []any{1}, map[string]any{"a": 1}} {
			if !s.takes(name, wrong) {
				bad[fmt.Sprintf("%s as %T %v", name, wrong, wrong)] = spell(func(a map[string]any) { a[name] = wrong })
			}
		}
	}
	for _, name := range s.Required {
		bad[name+" missing"] = spell(func(a map[string]any) { delete(a, name) })
	}
	return bad
}

// takes says whether a value is of a field's type, as far as the type tells.
func (s shape) takes(name string, v any) bool {
	types := fmt.Sprint(s.Properties[name].Type)
	switch v := v.(type) {
	case nil:
		return strings.Contains(types, "null")
	case string:
		return strings.Contains(types, "string")
	case bool:
		return strings.Contains(types, "boolean")
	case int:
		return strings.Contains(types, "integer") || strings.Contains(types, "number")
	case float64:
		return strings.Contains(types, "number")
	case []any:
		return strings.Contains(types, "array") && len(v) == 0
	case map[string]any:
		return strings.Contains(types, "object")
	}
	return false
}

func TestNoToolRunsOnArgumentsThatAreNotValid(t *testing.T) {
	box, who, offered := realTools(t)
	for i, tool := range long.Every(4, offered) {
		var s shape
		must(t, json.Unmarshal(tool.Schema, &s))
		bad := s.bad(t)
		if long.Or(i != 0, false) { // to redact a megabyte takes a while
			delete(bad, "a megabyte of a name")
			delete(bad, "more than two of them")
		}
		for what, raw := range bad {
			requireInvalid(t, box, who, tool.Name, what, raw)
		}
	}
}

func requireInvalid(t *testing.T, box *tools.Box, who corebot.Caller, tool, what, raw string) {
	t.Helper()
	w := &watched{t: t, what: tool + ": " + what}
	r, err := box.Call(t.Context(), who, corebot.ToolCall{ID: "1", Tool: tool, Args: json.RawMessage(raw)}, w)
	if err != nil || r.Outcome != corebot.OutcomeInvalidArgs || len(r.Content) < len("invalid_args: x") ||
		len(r.Content) > 60_000 {
		t.Errorf("%s: %.80q: got %s %.200q, %v", w.what, raw, r.Outcome, r.Content, err)
	}
	if w.finished != 1 || w.last.Outcome != corebot.OutcomeInvalidArgs || len(w.last.Args) > 16<<10 ||
		!json.Valid([]byte(w.last.Args)) {
		t.Errorf("%s: %d results in the journal, audit %s %.200q", w.what, w.finished, w.last.Outcome, w.last.Args)
	}
}

var jsonDocuments = flag.String("json.documents", "", "a folder of further *.json that no tool must take for its "+
	"arguments; scripts/json-suite has it be the public suite")

// documents are JSON and what is nearly JSON; none is an object with the fields of a tool.
func documents(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, text := range long.Every(6, []string{
		`{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":}`, `{a:1}`, `{'a':1}`, `{"a":1 "b":2}`, `{"a":01}`, `{"a":+1}`, `{"a":.5}`,
		`{"a":1.}`, `{"a":1e}`, `{"a":0x1}`,
		`{"a":Infinity}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\ud800"}`, "{\"a\":\"\t\"}",
		"{\"a\":\"\x00\"}", `{"a":"`, `{"a":"\"}`, `{"":0}`, `{"a":{"b":[1,{"c":null}]}}`,
		`[1,2`, `[,1]`, `[1,]`, `[1 2]`, `]`, `"`, `-`, `0`, `1e999`, `nul`, "\xef\xbb\xbf{}", "\xfe\xff\x00{\x00}",
		"{}{}", "{}#", "<a/>", "\u2060{}", "{\u00a0}",
	}) {
		found[text] = text
	}
	if *jsonDocuments == "" {
		return found
	}
	files, err := filepath.Glob(filepath.Join(*jsonDocuments, "*.json"))
	must(t, err)
	if len(files) < 100 {
		t.Fatalf("%s has %d documents", *jsonDocuments, len(files))
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		found[filepath.Base(file)] = string(raw)
	}
	return found
}

func TestNoDocumentIsTakenForArguments(t *testing.T) {
	box, who, offered := realTools(t)
	found := documents(t)
	for name, text := range found {
		if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "{}" {
			continue // good where nothing is required
		}
		for _, tool := range offered {
			requireInvalid(t, box, who, tool.Name, name, text)
		}
	}
	t.Logf("%d documents, %d tools", len(found), len(offered))
}
