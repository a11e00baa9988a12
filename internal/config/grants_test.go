package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestGrantsAreTheSameInEveryFormatAndInAVariable(t *testing.T) {
	want := []corebot.ToolGrant{
		{Tool: "mcp__files__*", Role: corebot.RoleNormal},
		{Tool: "message.send", Principal: corebot.Principal{Channel: "webhook", ID: "a,b=c"}},
	}
	for name, content := range map[string]string{
		"corebot.yaml": "tools:\n  grants:\n  - {tool: mcp__files__*, role: normal}\n  - tool: message.send\n    " +
			"principal: webhook::a%2Cb%3Dc\n    role:\n",
		"corebot.yml": "tools: {grants: 'mcp__files__*=normal, message.send=webhook::a%2Cb%3Dc'}",
		"corebot.toml": "[[tools.grants]]\ntool = 'mcp__files__*'\nrole = 'normal'\n[[tools.grants]]\ntool = " +
			"'message.send'\nprincipal = 'webhook::a%2Cb%3Dc'\n",
		"corebot.json": `{"tools":{"grants":[{"tool":"mcp__files__*","role":"normal"},{"tool":"message.send",` +
			`"principal":"webhook::a%2Cb%3Dc"}]}}`,
	} {
		clean(t)
		if got := load(t, homeWith(t, name, content)).Tools.Grants.List(); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for _, text := range []string{
		"mcp__files__*=normal,message.send=webhook::a%2Cb%3Dc",
		" mcp__files__* = normal , message.send = webhook::a%2Cb%3Dc ,",
		` [{"tool":"mcp__files__*","role":"normal"},{"tool":"message.send","principal":"webhook::a%2Cb%3Dc"}]`,
	} {
		t.Setenv("COREBOT_TOOLS_GRANTS", text)
		c := load(t, t.TempDir())
		if got := c.Tools.Grants.List(); !slices.Equal(got, want) || c.Tools.Grants != NewGrants(want...) {
			t.Errorf("%q in the environment: got %+v", text, got)
		}
	}
	if NewGrants() != (Grants{}) || len(Grants{}.List()) != 0 {
		t.Error("no grants are not the empty list")
	}
}

func TestGrantsAreShownAsAFileHasThem(t *testing.T) {
	clean(t)
	t.Setenv("COREBOT_TOOLS_GRANTS", "mcp.reload=admin,message.send=webhook::ann")
	e, err := Explain(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(e.Values, func(v Value) bool { return v.Key == "tools.grants" })
	const want = `[{"tool":"mcp.reload","role":"admin"},{"tool":"message.send","principal":"webhook::ann"}]`
	text, err := json.Marshal(e.Values[at].Value)
	if err != nil || string(text) != want || fmt.Sprint(e.Values[at].Value) != want {
		t.Errorf("shown as %s and %v, %v", text, e.Values[at].Value, err)
	}
}

func TestMistakesInGrantsAreRefusedWithTheirPlaceAndWhatToDo(t *testing.T) {
	for content, says := range map[string]string{
		"3":                "tools.grants is not a list",
		"{tool: a}":        "tools.grants is not a list",
		"[a]":              "tools.grants[0] is not an entry",
		"[{role: normal}]": "tools.grants[0]: invalid: no tool is named",
		"[{tool: a}]":      "tools.grants[0]: invalid: want either a role or a principal",
		"[{tool: a, role: admin, principal: 'webhook::x'}]": "tools.grants[0]: invalid: want either a role or a " +
			"principal",
		"[{tool: a, role: admin}, {tool: a, role: root}]": `tools.grants[1]: invalid: role "root"`,
		"[{tool: a, role: 'webhook::x'}]":                 `tools.grants[0]: invalid: role "webhook::x"`,
		"[{tool: a, principal: admin}]":                   `tools.grants[0]: invalid: principal "admin"`,
		"[{tool: a, principal: 'webhook::'}]":             "tools.grants[0]: invalid: senderId is empty",
		"[{tool: 'a*b', role: normal}]":                   `tools.grants[0]: invalid: tool "a*b"`,
		"[{tool: a, roles: normal}]":                      `tools.grants[0]: unknown key "roles"`,
		"[{tool: a, role: [normal]}]":                     "tools.grants[0].role is not text",
		"'a=normal, b'":                                   `tools.grants: "b": invalid: want TOOL=WHO`,
		"'a=everybody'":                                   `tools.grants: "a=everybody": invalid: role "everybody"`,
	} {
		clean(t)
		_, err := Load(homeWith(t, "corebot.yaml", "tools: {grants: "+content+"}"))
		if err == nil || !strings.Contains(err.Error(), says) || corebot.HintOf(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %s", content, err, corebot.HintOf(err), says)
		}
	}
	clean(t)
	t.Setenv("COREBOT_TOOLS_GRANTS", "mcp.reload")
	if _, err := Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(),
		`COREBOT_TOOLS_GRANTS: "mcp.reload": invalid`) {
		t.Errorf("%v", err)
	}
}
