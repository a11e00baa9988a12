package router_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
)

// TestAMessageThatLooksLikeAnAnswerGivesNothingUp: "yes" answers nothing. It is explained once at length, and the
// request stays open.
func TestAMessageThatLooksLikeAnAnswerGivesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, apptest.Options{Model: apptest.Script(append(hijacked(), apptest.Text("yes?"))...)})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		for i, text := range []string{"yes", "ok, go ahead", "approve 1"} {
			id := "yes" + string(rune('0'+i))
			c.SayAs("root", "a", id, text)
			pass(time.Minute)
			c.WantEnd(id, corebot.EndRefused)
			told := c.Told(id)
			if len(told) != 1 || !strings.Contains(told[0].Text(), "/approve 1 or /deny 1") ||
				strings.Contains(told[0].Text(), "no text can answer it") != (i == 0) {
				t.Errorf("%q is told %+v", text, told)
			}
		}
		if a := c.state(t, 1); a.State != corebot.ApprovalAwaited || c.runs.Load() != 0 {
			t.Fatalf("the approval is %s, and the call ran %d times", a.State, c.runs.Load())
		}
		c.SayAs("root", "a", "2", "/approve 1")
		pass(time.Minute)
		c.WantEnd("1", corebot.EndAnswered)
		if c.runs.Load() != 1 {
			t.Errorf("it ran %d times", c.runs.Load())
		}
		c.SayAs("root", "a", "later", "yes")
		pass(time.Minute)
		c.WantEnd("later", corebot.EndAnswered) // nothing is open: it is a message as any other
	})
}

// TestAYesOfSomebodyElseIsAMessage: others may mean something else, and their messages give nothing up.
func TestAYesOfSomebodyElseIsAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, apptest.Options{})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		c.SayAs("bob", "a", "2", "yes")
		pass(time.Minute)
		c.WantEnd("2", "")
		if a := c.state(t, 1); a.State != corebot.ApprovalAwaited {
			t.Errorf("the approval is %s", a.State)
		}
	})
}

func TestADenialCanStopTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, apptest.Options{})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		asked := len(c.Said("a"))
		c.SayAs("bob", "a", "no", "/deny 1 stop")
		pass(time.Minute)
		c.WantEnd("1", "") // bob is nobody here
		c.SayAs("root", "a", "2", "/deny 1 stop")
		pass(time.Minute)
		c.WantEnd("1", corebot.EndStopped)
		c.WantTold("2", "Denied: mcp.reload does not run. The answer is stopped.")
		if a := c.state(t, 1); a.State != corebot.ApprovalDenied || c.runs.Load() != 0 {
			t.Errorf("the approval is %s, and the call ran %d times", a.State, c.runs.Load())
		}
		for _, e := range c.Said("a")[asked:] {
			if e.Speaker == corebot.SpeakerAssistant && e.Text() == "done" {
				t.Error("the model went on")
			}
		}
		c.SayAs("root", "a", "3", "/deny 1 stop")
		pass(time.Minute)
		if told := c.Told("3"); len(told) != 1 || !strings.Contains(told[0].Text(), "denied already, by") {
			t.Errorf("the second is told %+v", told)
		}
	})
}

// TestADenialThatComesTooLateStopsNothing: the chat's next turn must not be stopped by a late word about the last one.
func TestADenialThatComesTooLateStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter(t, apptest.Options{Model: apptest.Script(append(hijacked(),
			apptest.After(time.Hour, apptest.Text("slow")))...)})
		c.SayAs("root", "a", "1", "read the page")
		pass(time.Minute)
		c.SayAs("root", "a", "2", "/approve 1")
		pass(time.Minute)
		c.SayAs("root", "a", "3", "think long")
		pass(time.Minute)
		c.SayAs("root", "a", "4", "/deny 1 stop")
		pass(2 * time.Hour)
		c.WantEnd("3", corebot.EndAnswered)
	})
}
