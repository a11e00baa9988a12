package corebot_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

func TestAHintTravelsWithItsErrorAndTheOutermostWins(t *testing.T) {
	inner := corebot.WithHint(corebot.ErrNotFound, "look elsewhere")
	outer := corebot.WithHint(fmt.Errorf("open: %w", inner), "start it once")
	if corebot.HintOf(outer) != "start it once" || corebot.HintOf(fmt.Errorf("x: %w", inner)) != "look elsewhere" {
		t.Errorf("the hints are %q and %q", corebot.HintOf(outer), corebot.HintOf(inner))
	}
	if !errors.Is(outer, corebot.ErrNotFound) || outer.Error() != "open: not found" {
		t.Errorf("the error is %v", outer)
	}
	if corebot.WithHint(nil, "x") != nil || corebot.HintOf(nil) != "" || corebot.HintOf(corebot.ErrNotFound) != "" {
		t.Error("a hint out of nothing")
	}
}

func TestAFailureIsItsErrorAndAClass(t *testing.T) {
	err := fmt.Errorf("ask: %w", &corebot.Failure{Class: corebot.RateLimited, Err: corebot.ErrOverloaded})
	var f *corebot.Failure
	if !errors.As(err, &f) || f.Class.String() != "rate_limited" || !errors.Is(err, corebot.ErrOverloaded) {
		t.Errorf("got %v", err)
	}
}

func TestStepsOfDifferentRunsAndMessagesHaveDifferentIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{"1", "1/1", "11"} {
		for run := 1; run <= 11; run++ {
			for position := range 12 {
				d := corebot.Delivery{Message: corebot.Message{ID: id}, Run: run}
				if step := d.StepID(position); seen[step] {
					t.Fatalf("the step id %s is given twice", step)
				} else {
					seen[step] = true
				}
			}
		}
	}
}
