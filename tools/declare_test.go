package tools_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// TestARequestNamesTheWayOutOnlyWhereADeclarationLetsTheCallRun: each other reason to ask would be left.
func TestARequestNamesTheWayOutOnlyWhereADeclarationLetsTheCallRun(t *testing.T) {
	for name, c := range map[string]struct {
		traits    tools.Traits
		saysReads bool
		made      string
		overheard bool
		untainted bool
		approvals policy.Approvals
		want      bool
	}{
		"its server says that it reads": {traits: tools.SideEffect, saysReads: true, want: true},
		"its server says nothing":       {traits: tools.SideEffect},
		"declared, and others hear the answer": {
			traits: tools.ReadOnly, saysReads: true, overheard: true,
		},
		"others hear the answer": {traits: tools.SideEffect, saysReads: true, overheard: true},
		"nobody has approved its description": {
			traits: tools.SideEffect | tools.Unapproved, saysReads: true,
		},
		"its description has changed": {traits: tools.SideEffect, saysReads: true, made: "v0"},
		"it can carry data to any address": {
			traits: tools.SideEffect | tools.Egress, saysReads: true,
		},
		"the settings ask in tainted turns": {
			traits: tools.SideEffect, saysReads: true, approvals: policy.Approvals{Tainted: []string{"mcp__*"}},
		},
		"people were asked before, and the turn is read as untainted by now": {
			traits: tools.SideEffect, saysReads: true, untainted: true,
		},
		"the settings ask always": {
			traits: tools.SideEffect, saysReads: true, approvals: policy.Approvals{Always: []string{"mcp__*"}},
		},
	} {
		tool, err := tools.NewDynamic(tools.Dynamic{
			Name: "mcp__mail__list", Doc: "A tool.", Schema: json.RawMessage(`{"type":"object"}`),
			Traits: c.traits | tools.Outside | tools.Privileged, Made: cmp.Or(c.made, "v1"), SaysReads: c.saysReads,
			Definition: func() string { return "v1" },
			Run:        func(context.Context, tools.Call, json.RawMessage) (string, error) { return "a mail", nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		box := newBoxUnder(t, policy.Options{Approvals: c.approvals}, &roles{role: corebot.RoleAdmin},
			tools.Options{Approvers: someone(true)}, tool)
		by := who
		by.Taint, by.Overheard = "a page", c.overheard
		s := newStep()
		if c.untainted {
			by.Taint, s.state = "", corebot.StepAwaiting
		}
		_, err = box.Call(t.Context(), by, call("mcp__mail__list", `{}`), s)
		waits := (*corebot.AwaitsApproval)(nil)
		if !errors.As(err, &waits) || waits.Asked.Approval.Declarable != c.want {
			t.Errorf("%s: %v, %+v, want %v", name, err, waits, c.want)
		}
	}
}

func TestADenialNamesTheWayOutThatItsRequestHadNamed(t *testing.T) {
	for _, state := range []corebot.ApprovalState{corebot.ApprovalDenied, corebot.ApprovalExpired} {
		for _, declarable := range []bool{false, true} {
			s := newStep()
			s.approval = &corebot.Approval{State: state, Declarable: declarable}
			tool := tools.New("mcp.reload", "A tool.", tools.SideEffect|tools.Privileged,
				func(context.Context, tools.Call, struct{}) (string, error) { return "", nil })
			box := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{Approvers: someone(true)}, tool)
			by := who
			by.Taint = "a page"
			r, err := box.Call(t.Context(), by, call("mcp.reload", `{}`), s)
			opens := strings.Contains(r.Opens, corebot.HowToDeclare)
			if err != nil || r.Outcome != corebot.OutcomeDenied || opens != declarable ||
				strings.Contains(r.Content, ".mcp.json") {
				t.Errorf("%s, %v: %+v, %v", state, declarable, r, err)
			}
		}
	}
}
