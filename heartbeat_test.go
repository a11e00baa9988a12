package corebot

import "testing"

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
