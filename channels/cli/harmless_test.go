package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// hostile wipes the screen, gives the window another title, and turns around what follows.
const hostile = "\x1b[2Jwiped\x1b]0;title\x07 \u202eout"

// TestNothingThatOthersWroteDrivesTheScreen has each kind of text come to the chat that is printed as it is.
func TestNothingThatOthersWroteDrivesTheScreen(t *testing.T) {
	for name, print := range map[string]func(d *desk){
		"an error":              func(d *desk) { d.printError(errors.New(hostile)) },
		"a question":            func(d *desk) { d.printQuestion(letter{id: "1", text: hostile}) },
		"what perhaps went":     func(d *desk) { d.onWay = []letter{{id: "1", text: hostile}}; d.leaveNow() },
		"the part of an answer": func(d *desk) { d.printPartial(turn{id: "1", text: hostile}, hostile) },
		"a notice": func(d *desk) {
			d.show(channels.Outbound{
				ID: "1", Kind: corebot.KindNotice, Key: testKey(),
				Parts: corebot.TextPart(hostile),
			})
		},
		"the output of a tool": func(d *desk) {
			d.onOutput(outputMsg{call: shownCall{name: hostile}, result: corebot.ToolResult{Content: hostile}})
		},
		"a tool and its outcome": func(d *desk) { d.printTool(toolRun{name: "x", args: hostile}, hostile, 1) },
	} {
		d := newDesk(t)
		print(d)
		if out := d.printed(); !strings.Contains(out, "wiped") {
			t.Errorf("%s is not printed: %q", name, out)
		} else {
			requireHarmless(t, withoutStyles(out))
		}
	}
}

func TestNoComplaintDrivesTheTerminal(t *testing.T) {
	var complaints bytes.Buffer
	p := &plain{opts: Options{Err: &complaints}}
	p.complain(hostile)
	if !strings.Contains(complaints.String(), "wiped") {
		t.Errorf("the complaint is %q", complaints.String())
	}
	requireHarmless(t, complaints.String())
}
