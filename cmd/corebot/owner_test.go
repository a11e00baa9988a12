package main

import (
	"strings"
	"testing"
)

func TestTheOwnerApprovesAtTheTerminalWithoutAnyGrant(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.env = append(s.env, "COREBOT_APPROVALS_ALWAYS=memory.write")
	c := s.chat()
	mark := c.mark()
	c.press(`/tool memory.write {"scope":"global","content":"blue"}` + "\r")
	c.await(mark, "/approve 1")
	if got := s.output("send", "--wait", "--chat", "other", "/approve 1"); !strings.Contains(got, "Only a person") {
		t.Errorf("a program approves: %s", got)
	}
	c.say("/approve 1", "Approved: memory.write")
}
