package main

import (
	"strings"
	"testing"
)

// TestAnOpenRequestHasItsKeysInEveryTerminal: in the one that asked, in another one, and in one that opens the chat
// later. The first answer counts, and each terminal shows it.
func TestAnOpenRequestHasItsKeysInEveryTerminal(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.env = append(s.env, "COREBOT_APPROVALS_ALWAYS=fs.write")
	const keys = "y once, s session, a always, n deny, N stop · approval 1"
	first, second := s.chat(), s.chat()
	first.await(0, "say something")
	second.await(0, "say something")
	first.say(`/tool fs.write {"path":"notes/a.md","content":"one"}`, keys)
	second.await(0, "fs.write of any file below notes, with any content")
	second.await(0, keys)
	second.press(ctrlD)
	second.ends()

	third := s.chat()
	third.await(0, "change of notes/a.md: a new file of 1 line")
	third.await(0, "--session and --always also let run: fs.write of any file below notes")
	third.await(0, keys)
	third.say("yes", "A message does not answer approval 1")
	before := third.mark()
	third.press("a")
	third.await(before, "Approved: fs.write runs now")
	first.await(0, "Approved: fs.write runs now")
	first.await(0, "wrote 3 bytes to notes/a.md")
	third.say("/approve 1", "Approval 1 is approved already, by cli:local:")
	first.say("/deny 1", "Approval 1 is approved already, by cli:local:")
	if rules := s.output("approvals", "rules"); !strings.Contains(rules, "rule 1: fs.write of any file below notes") {
		t.Errorf("the rules are %q", rules)
	}
	first.say(`/tool fs.write {"path":"notes/b.md","content":"two"}`, "wrote 3 bytes to notes/b.md")
	if open := s.output("approvals", "list"); !strings.Contains(open, "no call waits") {
		t.Errorf("it asks again: %s", open)
	}
}
