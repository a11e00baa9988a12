package corebot

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestACalmAnswerOfAHeartbeatSaysNothing(t *testing.T) {
	for answer, want := range map[string]string{
		"HEARTBEAT_OK":                           "",
		" **HEARTBEAT_OK**.\n":                   "",
		"`HEARTBEAT_OK`":                         "",
		"HEARTBEAT_OK HEARTBEAT_OK":              "",
		"":                                       "",
		"HEARTBEAT_OK\n\nThe disk is full.":      "The disk is full.",
		"The disk is full.\nHEARTBEAT_OK":        "The disk is full.",
		"The disk is full. **HEARTBEAT_OK**":     "The disk is full.",
		"I would say HEARTBEAT_OK, but it burns": "I would say HEARTBEAT_OK, but it burns",
		"HEARTBEAT_OKAY is no answer":            "HEARTBEAT_OKAY is no answer",
		"NOT_HEARTBEAT_OK":                       "NOT_HEARTBEAT_OK",
		"all is well":                            "all is well",
	} {
		if got := WithoutCalm(answer); got != want {
			t.Errorf("%q: %q, want %q", answer, got, want)
		}
	}
}

func TestAHeartbeatPageWithoutTasksAsksForNothing(t *testing.T) {
	for page, want := range map[string]string{
		"":                                      "",
		"# Heartbeat\n\n<!-- write\nhere -->\n": "",
		"# Heartbeat\n- [ ]\n-\n* \n":           "",
		"<!-- open\n- look":                     "",
		"# Heartbeat\n- [ ] look at the disk":   "# Heartbeat\n- [ ] look at the disk",
		"<!-- a -->look<!-- b -->":              "look",
	} {
		if got := HeartbeatTasks(page); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

func FuzzACalmAnswerLosesNothingElse(f *testing.F) {
	for _, answer := range []string{
		"**HEARTBEAT_OK**", "The disk is full. HEARTBEAT_OK", "HEARTBEAT_OK\xff", "'!HEARTBEAT_OK",
	} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		rest := WithoutCalm(answer)
		if !strings.Contains(answer, rest) {
			t.Fatalf("%q is left as %q", answer, rest)
		}
		if again := WithoutCalm(rest); again != rest {
			t.Fatalf("%q is left as %q, and then as %q", answer, rest, again)
		}
		if !strings.Contains(answer, Calm) && strings.ContainsFunc(answer, unicode.IsLetter) && rest == "" {
			t.Fatalf("%q is lost", answer)
		}
	})
}

func FuzzAHeartbeatPageIsAPartOfItself(f *testing.F) {
	for _, page := range []string{"# Heartbeat\n- look", "<!-- a -->look<!-- b", "<!--<!---->-->"} {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, page string) {
		asks := HeartbeatTasks(page)
		if len(asks) > len(page) || asks != strings.TrimSpace(asks) {
			t.Fatalf("%q asks for %q", page, asks)
		}
	})
}

func FuzzTheIDOfARunNamesItsTask(f *testing.F) {
	f.Add(int64(7), int64(1_790_000_000), false, "corebot:task/7/x")
	f.Fuzz(func(t *testing.T, id, unix int64, isolated bool, other string) {
		task, due := Task{ID: id, Context: TaskInChat}, time.Unix(unix, 0)
		if isolated {
			task.Context = TaskIsolated
		}
		if got, at, ok := RunOfTask(task.runID(due)); !ok || got != id || !at.Equal(due) {
			t.Fatalf("%s is task %d at %s, %t", task.runID(due), got, at, ok)
		}
		if _, _, ok := RunOfTask(other); ok && !strings.HasPrefix(other, OwnIDs) {
			t.Fatalf("%q is taken for a run", other)
		}
	})
}
