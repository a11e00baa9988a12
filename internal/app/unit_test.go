package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func deliveryTo(agent string) corebot.Delivery {
	return corebot.Delivery{Message: corebot.Message{ID: "m", Key: corebot.Key{
		Agent: agent, Channel: "webhook",
		Chat: "c",
	}}}
}

func TestAMessageForAnAgentThatIsGoneSaysSoAndCanBeReplayed(t *testing.T) {
	a := agents{all: map[string]*agentUnit{}, configured: []string{"main"}}
	_, err := a.Turn(t.Context(), deliveryTo("old"))
	f := (*corebot.Failure)(nil)
	if !errors.As(err, &f) || f.Class != corebot.Permanent {
		t.Fatalf("got %v, want a permanent failure", err)
	}
	if plain := corebot.ExplanationOf(err).Plain; !strings.Contains(plain, `agent "old"`) ||
		!strings.Contains(plain, "not configured") {
		t.Errorf("the chat is told %q", plain)
	}
	if hint := corebot.HintOf(err); !strings.Contains(hint, "replay") {
		t.Errorf("the operator's hint is %q", hint)
	}
}

func TestAMessageForAnAgentOfAnotherProcessWaitsAndCountsNoAttempt(t *testing.T) {
	a := agents{all: map[string]*agentUnit{}, configured: []string{"main", "helper"}}
	_, err := a.Turn(t.Context(), deliveryTo("main"))
	f := (*corebot.Failure)(nil)
	if !errors.As(err, &f) || f.Class != corebot.Cancelled || f.RetryAfter != elsewhere {
		t.Errorf("got %v, want a failure that is not counted and waits", err)
	}
}
