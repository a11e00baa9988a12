package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

func TestAToolWithEffectsHasItsIntentStoredBeforeItRuns(t *testing.T) {
	s := newStep()
	b := newBox(t, normal, tools.Options{}, does(tools.SideEffect, func(context.Context) (string, error) {
		*s.log = append(*s.log, "run")
		return "done", nil
	}))
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "done")
	if got := strings.Join(*s.log, " "); got != "intend run finish" {
		t.Errorf("order: %s", got)
	}
	if d := s.decisions[0]; d.Event != "tool.decision" || d.Outcome != "" || d.Rule != "open" || d.Args != "{}" {
		t.Errorf("the decision row is %+v", d)
	}
}

// kept are tools that policy keeps for admins, with every trait; fn runs them.
func kept(fn func()) []tools.Tool {
	run := func(context.Context, tools.Call, noArgs) (string, error) { fn(); return "done", nil }
	own := func(context.Context, tools.Call, noArgs) (corebot.Effect, string, error) {
		fn()
		return corebot.ReplayDeadLetter{ID: 7}, "done", nil
	}
	return []tools.Tool{
		tools.New("bus.dead_letter.list", "A tool for tests.", tools.ReadOnly|tools.Privileged, run),
		tools.New("mcp__x__read", "A tool for tests, whose maker knows no roles.", tools.ReadOnly|tools.Outside, run),
		tools.New("mcp.reload", "A tool for tests.", tools.Idempotent, run),
		tools.New("shell.exec", "A tool for tests.", tools.SideEffect, run),
		tools.NewOwn("bus.dead_letter.replay", "A tool for tests.", tools.Privileged, own),
	}
}

func TestACallThatNotEveryoneMayMakeHasItsDecisionStoredBeforeItRuns(t *testing.T) {
	admin := &roles{role: corebot.RoleAdmin}
	var s *step
	all := kept(func() { *s.log = append(*s.log, "run") })
	b := newBox(t, admin, tools.Options{}, all...)
	for _, tool := range all {
		for _, resumed := range []bool{false, true} {
			if resumed && tool.Name() == "shell.exec" {
				continue // it does not run again
			}
			s = newStep()
			s.intended = resumed
			r, err := b.Call(t.Context(), who, call(tool.Name(), `{}`), s)
			requireEnd(t, s, r, err, corebot.OutcomeSuccess, "done")
			if got := strings.Join((*s.log)[:2], " "); got != "intend run" || len(s.decisions) != 1 ||
				s.decisions[0].Rule == "" || s.decisions[0].Role != corebot.RoleAdmin {
				t.Errorf("%s, resumed %v: %q with the decisions %+v", tool.Name(), resumed, *s.log, s.decisions)
			}
		}
	}
}

func TestACallThatNotEveryoneMayMakeDoesNotRunWhenItsDecisionCannotBeStored(t *testing.T) {
	for _, tool := range kept(func() { t.Error("it ran") }) {
		for _, resumed := range []bool{false, true} {
			if resumed && tool.Name() == "shell.exec" {
				continue
			}
			s := newStep()
			s.intended, s.intendErr = resumed, errors.New("the disk is gone")
			b := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{}, tool)
			if r, err := b.Call(t.Context(), who, call(tool.Name(), `{}`), s); !errors.Is(err, s.intendErr) ||
				r != (corebot.ToolResult{}) || len(s.rows) != 0 {
				t.Errorf("%s, resumed %v: %+v, %v, rows %+v", tool.Name(), resumed, r, err, s.rows)
			}
		}
	}
}

func TestAReadOnlyToolNeedsOneCommit(t *testing.T) {
	s := newStep()
	b := newBox(t, normal, tools.Options{}, does(tools.ReadOnly, says("done")))
	r, err := b.Call(t.Context(), who, call("web.search", ``), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "done")
	if got := strings.Join(*s.log, " "); got != "finish" {
		t.Errorf("order: %s", got)
	}
}

func TestAToolThatMayNotRepeatIsNotRunAgainAfterACrash(t *testing.T) {
	for traits, again := range map[tools.Traits]bool{
		tools.SideEffect: false, tools.ReadOnly: true,
		tools.Idempotent: true, tools.OwnData: true,
	} {
		ran := false
		b := newBox(t, normal, tools.Options{}, does(traits, func(context.Context) (string, error) {
			ran = true
			return "done", nil
		}))
		s := newStep()
		s.intended = true
		r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
		if ran != again || len(s.decisions) != 0 {
			t.Errorf("traits %b: ran is %v, want %v; %d new intents", traits, ran, again, len(s.decisions))
		}
		if again {
			requireEnd(t, s, r, err, corebot.OutcomeSuccess, "done")
		} else {
			requireEnd(t, s, r, err, corebot.OutcomeUnknown, "may or may not have taken effect")
		}
	}
}

func TestWhatCannotRunIsAResultAndNotAnError(t *testing.T) {
	ran := false
	run := func(context.Context, tools.Call, noArgs) (string, error) { ran = true; return "", nil }
	b := newBox(t, normal, tools.Options{}, does(tools.SideEffect,
		func(context.Context) (string, error) { ran = true; return "", nil }),
		tools.New("mcp.reload", "Reload.", tools.Idempotent, run))
	for _, c := range []struct {
		call    corebot.ToolCall
		outcome corebot.AuditOutcome
		content string
		rule    string
	}{
		{call("no.such", `{}`), corebot.OutcomeError, "unknown_tool", ""},
		{call(strings.Repeat("é", 200), `{}`), corebot.OutcomeError, "unknown_tool", ""},
		{call("web.search", `{`), corebot.OutcomeInvalidArgs, "invalid_args", ""},
		{call("web.search", `{"x":1}`), corebot.OutcomeInvalidArgs, "invalid_args", ""},
		{call("mcp.reload", `{}`), corebot.OutcomeDenied, "denied", "mcp-reload"},
	} {
		s := newStep()
		r, err := b.Call(t.Context(), who, c.call, s)
		requireEnd(t, s, r, err, c.outcome, c.content)
		if s.rows[0].Rule != c.rule || len(s.rows[0].Tool) > 130 || len(s.decisions) != 0 || ran {
			t.Errorf("%s: row %+v, %d intents, ran %v", c.call.Tool, s.rows[0], len(s.decisions), ran)
		}
	}
}

func TestTheRoleIsReadForEveryCall(t *testing.T) {
	r := &roles{role: corebot.RoleAdmin}
	b := newBox(t, r, tools.Options{}, tools.New("mcp.reload", "Reload.", tools.Idempotent,
		func(context.Context, tools.Call, noArgs) (string, error) { return "ok", nil }))
	for role, want := range map[corebot.Role]corebot.AuditOutcome{
		corebot.RoleAdmin:  corebot.OutcomeSuccess,
		corebot.RoleNormal: corebot.OutcomeDenied,
	} {
		r.role = role
		s := newStep()
		got, err := b.Call(t.Context(), who, call("mcp.reload", `{}`), s)
		requireEnd(t, s, got, err, want, "")
	}
	r.err = errors.New("no database")
	if _, err := b.Call(t.Context(), who, call("mcp.reload", `{}`), newStep()); !errors.Is(err, r.err) {
		t.Errorf("got %v", err)
	}
}

func TestACallByTheNameThatProvidersKnowIsTheToolsAlsoWhenItWasNotOffered(t *testing.T) {
	run := func(context.Context, tools.Call, noArgs) (string, error) { t.Error("it ran"); return "", nil }
	tool := func(name string) tools.Tool { return tools.New(name, "A tool for tests.", tools.SideEffect, run) }
	b := newBox(t, normal, tools.Options{}, tool("shell.exec"), tool("mcp.reload"), tool("a.b"), tool("a_b.c"),
		tool("a.b_c"))
	for name, want := range map[string]struct {
		tool, rule string
		outcome    corebot.AuditOutcome
	}{
		"shell_exec":  {"shell.exec", "shell", corebot.OutcomeDenied},
		"mcp_reload":  {"mcp.reload", "mcp-reload", corebot.OutcomeDenied},
		"a_b":         {"a.b", "default", corebot.OutcomeDenied},
		"a_b_c":       {"a_b_c", "", corebot.OutcomeError}, // it could be either
		"shell__exec": {"shell__exec", "", corebot.OutcomeError},
	} {
		s := newStep()
		r, err := b.Call(t.Context(), who, call(name, `{}`), s)
		requireEnd(t, s, r, err, want.outcome, "")
		if s.rows[0].Tool != want.tool || s.rows[0].Rule != want.rule {
			t.Errorf("%s: row %+v", name, s.rows[0])
		}
	}
}

func TestErrorsOfTheJournalAreReturnedAsTheyAre(t *testing.T) {
	ran := false
	b := newBox(t, normal, tools.Options{}, does(tools.SideEffect,
		func(context.Context) (string, error) { ran = true; return "", nil }))
	s := newStep()
	s.intendErr = corebot.ErrLeaseLost
	if _, err := b.Call(t.Context(), who, call("web.search", `{}`), s); err != corebot.ErrLeaseLost || ran ||
		len(s.rows) != 0 {
		t.Errorf("without an intent: %v, ran %v, rows %v", err, ran, s.rows)
	}
	s = newStep()
	s.finishErr = corebot.ErrLeaseLost
	if r, err := b.Call(t.Context(), who, call("web.search", `{}`), s); err != corebot.ErrLeaseLost ||
		r != (corebot.ToolResult{}) {
		t.Errorf("without a result: %+v, %v", r, err)
	}
}

func TestAToolsErrorAndItsHintReachTheModel(t *testing.T) {
	b := newBox(t, normal, tools.Options{}, does(tools.SideEffect, func(context.Context) (string, error) {
		return "", corebot.WithHint(errors.New("it broke"), "mend it")
	}))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeError, "it broke (mend it)")
}

func TestAPanicEndsTheCallAndIsNotShown(t *testing.T) {
	for traits, want := range map[tools.Traits]corebot.AuditOutcome{
		tools.ReadOnly:   corebot.OutcomeError,
		tools.SideEffect: corebot.OutcomeUnknown,
	} {
		b := newBox(t, normal, tools.Options{}, does(traits, func(context.Context) (string, error) {
			panic("private detail")
		}))
		s := newStep()
		r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
		requireEnd(t, s, r, err, want, "failed badly")
		if strings.Contains(r.Content, "private") {
			t.Errorf("the model reads %q", r.Content)
		}
	}
}

func untilDone(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestATimeLimitEndsTheCall(t *testing.T) {
	for traits, want := range map[tools.Traits]corebot.AuditOutcome{
		tools.ReadOnly:   corebot.OutcomeError,
		tools.SideEffect: corebot.OutcomeUnknown,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t, normal, tools.Options{}, does(traits, untilDone, tools.Timeout[noArgs](7*time.Second)))
			s := newStep()
			r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
			requireEnd(t, s, r, err, want, "took too long")
			if s.rows[0].Duration != 7*time.Second {
				t.Errorf("it took %v", s.rows[0].Duration)
			}
		})
	}
}

func TestAToolThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, work := make(chan struct{}), new(live.Work)
		b := newBox(t, normal, tools.Options{Work: work}, does(tools.Idempotent,
			func(context.Context) (string, error) { <-release; return "", nil }))
		s := newStep()
		r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
		requireEnd(t, s, r, err, corebot.OutcomeUnknown, "left behind")
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := work.End(short, chat, corebot.ErrLeaseLost); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("while it is at work its chat is at rest: %v", err)
		}
		close(release)
		if err := work.End(t.Context(), chat, corebot.ErrLeaseLost); err != nil {
			t.Error(err)
		}
	})
}

func TestATurnThatEndsDuringACallLeavesItKnownOrUnknown(t *testing.T) {
	succeeds := func(ctx context.Context) (string, error) { <-ctx.Done(); return "done all the same", nil }
	for name, c := range map[string]struct {
		traits tools.Traits
		run    func(context.Context) (string, error)
		want   corebot.AuditOutcome // empty: nothing is stored, the call runs again
	}{
		"side effect, stopped":   {tools.SideEffect, untilDone, corebot.OutcomeUnknown},
		"side effect, succeeded": {tools.SideEffect, succeeds, corebot.OutcomeSuccess},
		"idempotent, stopped":    {tools.Idempotent, untilDone, ""},
		"idempotent, succeeded":  {tools.Idempotent, succeeds, corebot.OutcomeSuccess},
		"read only, stopped":     {tools.ReadOnly, untilDone, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBox(t, normal, tools.Options{}, does(c.traits, c.run))
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(corebot.ErrStopped) })
			s := newStep()
			_, err := b.Call(ctx, who, call("web.search", `{}`), s)
			if !errors.Is(err, corebot.ErrStopped) {
				t.Errorf("%s: got %v", name, err)
			}
			switch {
			case c.want == "" && len(s.results) != 0:
				t.Errorf("%s: stored %+v", name, s.results)
			case c.want != "" && (len(s.results) != 1 || s.results[0].Outcome != c.want || s.finishCtx != nil):
				t.Errorf("%s: stored %+v under a context that says %v", name, s.results, s.finishCtx)
			}
		})
	}
}

func TestOfferShowsWhatTheRoleMayUseSortedAndStable(t *testing.T) {
	run := func(context.Context, tools.Call, noArgs) (string, error) { return "", nil }
	all := []tools.Tool{does(tools.ReadOnly, says("")), tools.New("shell.exec", "Run.",
		tools.SideEffect|tools.Privileged, run), tools.New("chat.register", "Register.", tools.OwnData, run)}
	r := &roles{role: corebot.RoleNormal}
	b := newBox(t, r, tools.Options{}, all...)
	names := func() []string {
		t.Helper()
		offered, err := b.Offer(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range offered {
			names = append(names, o.Name)
		}
		again, _ := b.Offer(t.Context(), who)
		if !reflect.DeepEqual(offered, again) {
			t.Errorf("two offers differ: %v and %v", offered, again)
		}
		return names
	}
	if got := names(); !reflect.DeepEqual(got, []string{"chat.register", "web.search"}) {
		t.Errorf("normal: %v", got)
	}
	r.role = corebot.RoleAdmin
	if got := names(); !reflect.DeepEqual(got, []string{"chat.register", "shell.exec", "web.search"}) {
		t.Errorf("admin: %v", got)
	}
}

func TestAuditRowsHoldNoSecrets(t *testing.T) {
	r, err := redact.New([]string{"hunter2hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(t, normal, tools.Options{Redactor: r}, does(tools.SideEffect, says("it is hunter2hunter2")))
	for _, args := range []string{
		`{"bootstrapKey":"hunter2hunter2"}`, `hunter2hunter2`,
		strings.Repeat("hunter2hunter2", 10_000),
	} {
		s := newStep()
		if _, err := b.Call(t.Context(), who, call("web.search", args), s); err != nil {
			t.Fatal(err)
		}
		row := s.rows[0].Args
		if strings.Contains(row, "hunter2") || !json.Valid([]byte(row)) || len(row) > 9<<10 ||
			strings.Contains(s.results[0].Content, "hunter2") {
			t.Errorf("row %q, result %q", row, s.results[0].Content)
		}
	}
}

// The store counts a call by the label of its row.
func TestCallsAreCountedUnderBoundedLabels(t *testing.T) {
	reg := prometheus.NewRegistry()
	b := newBox(t, normal, tools.Options{Metrics: reg}, does(tools.ReadOnly, says("")))
	got := map[string]float64{}
	for _, tool := range []string{"web.search", "made.up", "made.up.too"} {
		s := newStep()
		if _, err := b.Call(t.Context(), who, call(tool, `{}`), s); err != nil {
			t.Fatal(err)
		}
		last := s.rows[len(s.rows)-1]
		got[last.Label+" "+string(last.Outcome)]++
	}
	if want := map[string]float64{"web.search success": 1, "unknown error": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("the rows are labelled %v, want %v", got, want)
	}
	got = map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()] = float64(m.GetSummary().GetSampleCount())
		}
	}
	if want := map[string]float64{"web": 1, "mcp": 0, "unknown": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A server of MCP names its tools, and may do so after what it was told.
func TestTheLabelsOfACallHoldNoSecret(t *testing.T) {
	reg := prometheus.NewRegistry()
	hide, err := redact.New([]string{"hunter2hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	tool := tools.New("mcp__vault__hunter2hunter2", "A tool for tests.", tools.ReadOnly|tools.Outside,
		func(context.Context, tools.Call, noArgs) (string, error) { return "", nil })
	b := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{Metrics: reg, Redactor: hide}, tool)
	s := newStep()
	if _, err := b.Call(t.Context(), who, call("mcp__vault__hunter2hunter2", `{}`), s); err != nil {
		t.Fatal(err)
	}
	if label := s.rows[len(s.rows)-1].Label; label != "mcp__vault__[redacted]" {
		t.Errorf("the row is labelled %q", label)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	for _, f := range families {
		for _, label := range f.GetMetric()[0].GetLabel() {
			if label.GetName() == "tool" && label.GetValue() != "mcp__vault__[redacted]" {
				t.Errorf("%s has the label %q", f.GetName(), label.GetValue())
			}
		}
	}
}

// inOneChat is server state with an admin of one conversation.
type inOneChat corebot.Key

func (c inOneChat) RoleOf(_ context.Context, _ corebot.Principal, k corebot.Key) (corebot.Role, error) {
	if k == corebot.Key(c) {
		return corebot.RoleAdmin, nil
	}
	return corebot.RoleNormal, nil
}

func TestWhoIsAdminInOneConversationHasNoToolThatActsOnAll(t *testing.T) {
	tool := tools.New("mcp.reload", "A tool for tests.", tools.SideEffect,
		func(context.Context, tools.Call, noArgs) (string, error) {
			t.Error("it ran")
			return "", nil
		})
	b, s := newBox(t, inOneChat(chat), tools.Options{}, tool), newStep()
	if offered, err := b.Offer(t.Context(), who); err != nil || len(offered) != 0 {
		t.Errorf("it is offered %v, %v", offered, err)
	}
	r, err := b.Call(t.Context(), who, call("mcp.reload", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeDenied, "only an admin everywhere")
}

func TestABegunCallStaysUnknownWhateverHoldsNow(t *testing.T) {
	tool := tools.New("bus.dead_letter.replay", "A tool for tests.", tools.SideEffect,
		func(context.Context, tools.Call, noArgs) (string, error) {
			t.Error("it ran again")
			return "", nil
		})
	b := newBox(t, &roles{role: corebot.RoleNormal}, tools.Options{}, tool)
	for name, call := range map[string]corebot.ToolCall{
		"the role is gone":      {ID: "c", Tool: "bus.dead_letter.replay"},
		"the tool is gone":      {ID: "c", Tool: "mcp__gone__pay"},
		"the arguments changed": {ID: "c", Tool: "bus.dead_letter.replay", Args: []byte(`{"now":"strict"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStep()
			s.intended = true
			if r, err := b.Call(t.Context(), who, call, s); err != nil || r.Outcome != corebot.OutcomeUnknown {
				t.Errorf("it is told as %s: %s %v", r.Outcome, r.Content, err)
			}
		})
	}
}
