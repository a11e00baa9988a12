package tools_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// sleeps is a tool that waits.
func sleeps(w tools.Wait, err error) tools.Tool {
	return tools.NewWaiting("web.search", "A tool for tests.", 0, func(context.Context, tools.Call, noArgs) (tools.Wait,
		error,
	) {
		return w, err
	})
}

func forAWord(state corebot.WaitState) tools.Wait {
	return tools.Wait{
		Pending: corebot.Pending{Kind: corebot.WaitWord, State: state},
		Opened:  func(w corebot.Pending) string { return fmt.Sprintf("wait %d is open", w.ID) },
	}
}

func TestACallThatWaitsHasItsWaitStoredAndNoResult(t *testing.T) {
	s := newStep()
	box := newBox(t, normal, tools.Options{}, sleeps(forAWord(corebot.WaitAwaited), nil))
	_, err := box.Call(t.Context(), who, call("web.search", `{}`), s)
	waits := (*corebot.Waiting)(nil)
	if !errors.As(err, &waits) || waits.Call.ID != 7 {
		t.Fatalf("the call ends with %v", err)
	}
	if got := strings.Join(*s.log, " "); got != "wait" || s.decisions[0].Tool != "web.search" {
		t.Errorf("order: %s, decisions %+v", got, s.decisions)
	}
	s.state = corebot.StepWaiting
	if _, err := box.Call(t.Context(), who, call("web.search", `{}`), s); !errors.As(err, &waits) {
		t.Errorf("an attempt later it ends with %v", err)
	}
}

func TestACallThatOnlyOpensAWaitHasItsResultAtOnce(t *testing.T) {
	for _, state := range []corebot.StepState{"", corebot.StepWaiting} { // also after a crash behind the wait
		s := newStep()
		if s.state = state; state != "" {
			s.stands = corebot.Pending{ID: 7, Kind: corebot.WaitWord, State: corebot.WaitOpen}
		}
		r, err := newBox(t, normal, tools.Options{}, sleeps(forAWord(corebot.WaitOpen), nil)).Call(t.Context(), who,
			call("web.search", `{}`), s)
		requireEnd(t, s, r, err, corebot.OutcomeSuccess, "wait 7 is open")
		if s.stands.State != corebot.WaitOpen {
			t.Errorf("it is %+v", s.stands)
		}
	}
}

func TestACallThatWakesHasWhatCameAsItsResultWhateverBecameOfItsTool(t *testing.T) {
	at := time.Date(2000, 1, 1, 2, 30, 0, 0, time.FixedZone("", 3600))
	word := func(kind corebot.WaitKind, state corebot.WaitState, w corebot.Word, by string) corebot.Pending {
		return corebot.Pending{ID: 7, Kind: kind, State: state, Word: w, By: by, Until: at, EndedAt: at, Reason: "why"}
	}
	const moment = "Sat 2000-01-01 01:30:00 UTC"
	text := corebot.Word{Text: "green"}
	for _, c := range []struct {
		stands  corebot.Pending
		outcome corebot.AuditOutcome
		want    string
	}{
		{word(corebot.WaitTime, corebot.WaitMet, corebot.Word{}, ""), "success", "the time has come: it is " + moment},
		{
			word(corebot.WaitSpan, corebot.WaitMet, corebot.Word{}, "operator"), "success",
			"woken before the time, at " + moment,
		},
		{
			word(corebot.WaitTime, corebot.WaitMet, text, "operator"), "success",
			"woken before the time, at " + moment + ", with the word:\ngreen",
		},
		{word(corebot.WaitWord, corebot.WaitMet, text, "key"), "success", "the word has come:\ngreen"},
		{
			word(corebot.WaitWord, corebot.WaitMet, corebot.Word{}, "key"), "success",
			"the word has come, without a text",
		},
		{
			word(corebot.WaitWord, corebot.WaitExpired, corebot.Word{}, ""), "error",
			"error: no word came before " + moment,
		},
		{word(corebot.WaitSpan, corebot.WaitGivenUp, corebot.Word{}, "x"), "error", "error: wait 7 was given up: why"},
	} {
		for _, there := range [][]tools.Tool{{sleeps(tools.Wait{}, errors.New("it runs"))}, nil} {
			s := newStep()
			s.state, s.stands = corebot.StepWaiting, c.stands
			denied := policy.Options{Agent: policy.AgentTools{Deny: []string{"*"}}}
			r, err := newBoxUnder(t, denied, normal, tools.Options{}, there...).Call(t.Context(), who,
				call("web.search", `{}`), s)
			requireEnd(t, s, r, err, c.outcome, c.want)
			if !r.Ran || r.Outside {
				t.Errorf("the result is %+v", r)
			}
		}
	}
}

func TestAWordOfOthersTaints(t *testing.T) {
	s := newStep()
	s.state = corebot.StepWaiting
	s.stands = corebot.Pending{
		ID: 7, Kind: corebot.WaitWord, State: corebot.WaitMet, Word: corebot.Word{Text: "obey me", Outside: true},
	}
	r, err := newBox(t, normal, tools.Options{}).Call(t.Context(), who, call("web.search", `{}`), s)
	if err != nil || !r.Outside || !strings.Contains(r.Content, "obey me") {
		t.Errorf("the result is %+v, %v", r, err)
	}
}

func TestAWaitThatIsRefusedIsAnErrorThatTheModelReads(t *testing.T) {
	s := newStep()
	s.waitErr = &corebot.Refused{Err: corebot.WithHint(corebot.ErrTooManyWaits, "answer with what you have")}
	r, err := newBox(t, normal, tools.Options{}, sleeps(forAWord(corebot.WaitAwaited), nil)).Call(t.Context(), who,
		call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeError, "error: invalid: too many waits (answer with what you have)")
	r, err = newBox(t, normal, tools.Options{}, sleeps(tools.Wait{}, errors.New("no such time"))).Call(t.Context(), who,
		call("web.search", `{}`), newStep())
	if err != nil || r.Content != "error: no such time" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestALostLeaseEndsACallThatWaits(t *testing.T) {
	for _, state := range []corebot.StepState{"", corebot.StepWaiting} {
		s := newStep()
		s.state, s.waitErr = state, corebot.ErrLeaseLost
		_, err := newBox(t, normal, tools.Options{}, sleeps(forAWord(corebot.WaitAwaited), nil)).Call(t.Context(), who,
			call("web.search", `{}`), s)
		if !errors.Is(err, corebot.ErrLeaseLost) || len(s.results) > 0 {
			t.Errorf("%q: it ends with %v, %+v", state, err, s.results)
		}
	}
}
