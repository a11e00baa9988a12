package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

type wordArgs struct {
	Word string `json:"word"`
}

// shout is a tool whose work is told by its arguments.
func shout(traits tools.Traits) tools.Tool {
	return tools.New("web.search", "A tool for tests.", traits, func(_ context.Context, _ tools.Call,
		a wordArgs,
	) (string, error) {
		if a.Word == "" {
			return "", errors.New("no word")
		}
		return strings.ToUpper(a.Word), nil
	})
}

func TestAToolElsewhereIsCheckedHereAndDoesThereWhatItDoesHere(t *testing.T) {
	there := shout(tools.ReadOnly)
	var seen []string
	box := newBox(t, normal, tools.Options{}, shout(tools.ReadOnly).Elsewhere(func(ctx context.Context,
		args json.RawMessage,
	) (string, error) {
		seen = append(seen, string(args))
		return there.Work(ctx, tools.Call{}, args)
	}))
	for args, want := range map[string]corebot.ToolResult{
		`{"word":"hi"}`:       {Outcome: corebot.OutcomeSuccess, Content: "HI"},
		`{"word":""}`:         {Outcome: corebot.OutcomeError, Content: "error: no word"},
		`{"word":"a","x":1}`:  {Outcome: corebot.OutcomeInvalidArgs, Content: "invalid_args"},
		`{"word":1}`:          {Outcome: corebot.OutcomeInvalidArgs, Content: "invalid_args"},
		`{"word":"a"}{"a":1}`: {Outcome: corebot.OutcomeInvalidArgs, Content: "invalid_args"},
	} {
		r, err := box.Call(t.Context(), who, call("web.search", args), newStep())
		if err != nil || r.Outcome != want.Outcome || !strings.HasPrefix(r.Content, want.Content) {
			t.Errorf("%s: %+v, %v", args, r, err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the other side was asked for %q", seen)
	}
	if _, err := there.Work(t.Context(), tools.Call{}, json.RawMessage(`{"word":1}`)); err == nil {
		t.Error("the other side takes what the tool does not")
	}
}

func TestAToolElsewhereThatGivesNoAnswerEndsByItsTraits(t *testing.T) {
	for traits, want := range map[tools.Traits]corebot.AuditOutcome{
		tools.ReadOnly:   corebot.OutcomeError,
		tools.Idempotent: corebot.OutcomeError, tools.SideEffect: corebot.OutcomeUnknown,
	} {
		box := newBox(t, normal, tools.Options{}, shout(traits).Elsewhere(func(context.Context,
			json.RawMessage,
		) (string, error) {
			return "", fmt.Errorf("%w: it died", tools.ErrUnsettled)
		}))
		if r, err := box.Call(t.Context(), who, call("web.search", `{"word":"a"}`), newStep()); err != nil ||
			r.Outcome != want {
			t.Errorf("traits %b: %+v, %v", traits, r, err)
		}
	}
}

func TestWhatChangesOwnDataCannotBeElsewhere(t *testing.T) {
	elsewhere := owns(replays(1)).Elsewhere(func(context.Context, json.RawMessage) (string, error) { return "", nil })
	if _, err := tools.NewRegistry(elsewhere); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	_, err := owns(replays(1)).Work(t.Context(), tools.Call{}, json.RawMessage(`{}`))
	if !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
