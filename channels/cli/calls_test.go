package cli

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

func ended(id, tool, outcome string, position int) eventsMsg {
	return eventsMsg{{
		Kind: live.ToolEnded, Key: testKey(), MessageID: id, Tool: tool, Text: outcome, Position: position,
	}}
}

// approvalNotice asks for an approval of so many calls.
func approvalNotice(id int64, to string, calls int) showMsg {
	m := notice("approval", to, "Approval 7: an admin has to approve this.\n| @@ -1,1 +1,1 @@\n| -old\n| +new")
	m.Notice = &corebot.Notice{Kind: corebot.NoticeApproval, Approval: &corebot.ApprovalNotice{
		ID: id, Calls: make([]corebot.NoticeCall, calls),
	}}
	return showMsg{m, make(chan error, 1)}
}

func TestACallThatWaitsForAnApprovalLooksLikeWaiting(t *testing.T) {
	d := newDesk(t)
	l := d.enter("write it")
	d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""),
		event(live.ToolStarted, l.id, "{}", "fs.write"),
		ended(l.id, "fs.write", live.Waiting, 2), event(live.TurnEnded, l.id, live.Waiting, ""),
		approvalNotice(7, l.id, 2))
	requireLacks(t, d.printed(), "✗")
	requireHas(t, d.screen(), "y approves, n denies · approval 7: 2 calls wait")
	if d.busy() || !d.awaited() {
		t.Errorf("busy %v, awaited %v", d.busy(), d.awaited())
	}
	d.do(press('c', tea.ModCtrl))
	if d.gone || d.letters[len(d.letters)-1].text != "/stop" {
		t.Error("Ctrl-C did not stop the message that waits")
	}
	d.do(event(live.TurnStarted, "other", "", ""))
	requireHas(t, d.screen(), "approval 7")
	d.do(event(live.TurnStarted, l.id, "", ""))
	requireLacks(t, d.screen(), "approval 7")
	d.do(approvalNotice(8, l.id, 1))
	d.show(reply("r", l.id, "done"))
	requireLacks(t, d.screen(), "approval 8")
}

func TestOneKeyAnswersARequestIfNothingIsTyped(t *testing.T) {
	for key, want := range map[rune]string{'y': "/approve 7", 'n': "/deny 7"} {
		d := newDesk(t)
		d.typed(string(key))
		if d.editor.text() != string(key) {
			t.Fatalf("without a request the input is %q", d.editor.text())
		}
		d.do(approvalNotice(7, "q", 1))
		d.typed(string(key))
		if got := d.editor.text(); got != string(key)+string(key) || len(d.letters) > 0 {
			t.Errorf("in a text the key typed %q and sent %+v", got, d.letters)
		}
		d.do(press('u', tea.ModCtrl), tea.PasteMsg{Content: string(key)}, press('u', tea.ModCtrl))
		if len(d.letters) > 0 {
			t.Errorf("a paste sent %+v", d.letters)
		}
		d.typed(string(key) + string(key))
		if len(d.letters) != 1 || d.letters[0].text != want || d.editor.text() != string(key) {
			t.Errorf("the key sent %+v, and the input is %q", d.letters, d.editor.text())
		}
	}
}

func TestTheLastPromptComesBackIntoTheInput(t *testing.T) {
	d := newDesk(t)
	d.enter("/edit")
	requireHas(t, d.printed(), "nothing was said here yet")
	d.enter("a question")
	d.enter("/status")
	d.enter("/edit")
	if got := d.editor.text(); got != "a question" {
		t.Errorf("the input is %q", got)
	}
}

func TestAChatGetsAName(t *testing.T) {
	d := newDesk(t)
	named := ""
	d.rename = func(name string) error { named = name; return nil }
	for text, want := range map[string]string{
		"/name garden plans": "this chat is called garden plans", "/name": "say it as /name TEXT",
		"/name " + strings.Repeat("x", maxName+1): "say it as /name TEXT",
	} {
		d.typed(text)
		d.onKey(press(tea.KeyEnter, 0))
		for _, cmd := range d.later {
			d.later = nil
			d.do(cmd())
		}
		requireHas(t, d.printed(), want)
	}
	if named != "garden plans" || len(d.letters) > 0 {
		t.Errorf("named %q, sent %+v", named, d.letters)
	}
}

func TestTheOutputOfACallIsShownOnDemand(t *testing.T) {
	d := newDesk(t)
	d.outputs = func(message string, position int) (corebot.ToolResult, error) {
		switch {
		case message == "q" && position == 1:
			return corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "first\x1b[2J"}, nil
		case message == "q" && position == 3:
			return corebot.ToolResult{Outcome: corebot.OutcomeDenied, Content: "denied: no"}, nil
		}
		return corebot.ToolResult{}, errors.New("swept away")
	}
	ask := func(command string) string {
		before := len(d.printed())
		d.typed(command)
		d.onKey(press(tea.KeyEnter, 0))
		for _, cmd := range d.later {
			d.later = nil
			d.do(cmd())
		}
		return d.printed()[before:]
	}
	requireHas(t, ask("/output"), "no tool call was shown here yet")
	d.do(ended("q", "fs.read", "success", 1), ended("q", "shell.exec", "denied", 3),
		ended("p", "fs.list", "success", 1))
	requireHas(t, ask("/output 1"), "output of call 1, fs.read:\n\nfirst␛[2J")
	requireHas(t, ask("/output 2"), "output of call 2, shell.exec → denied:\n\ndenied: no")
	requireHas(t, ask("/output"), "read the output of call 3: swept away")
	requireHas(t, ask("/output 9"), "there is no call 9 here")
	requireHas(t, ask("/output x"), "there is no call x here")
	if len(d.letters) > 0 {
		t.Errorf("sent %+v", d.letters)
	}
}

func TestArgumentsAreShort(t *testing.T) {
	for args, want := range map[string]string{
		`{"path":"a.txt","limit":3}`:        `path=a.txt limit=3`,
		`{"q":"two words","list":["a", 1]}`: `q="two words" list=["a", 1]`,
		`{}`:                                ``,
		`[1]`:                               `[1]`,
		`not json`:                          `not json`,
		`{"a":`:                             `{"a":`,
		`{"a":"x=y"}`:                       `a="x=y"`,
		`{"a":"\u003cb\u003e c"}`:           `a="<b> c"`,
		`{"a":"b \n c"}`:                    `a="b \n c"`,
	} {
		if got := briefArgs(args); got != want {
			t.Errorf("%s is shown as %q, want %q", args, got, want)
		}
	}
}

func TestTheRowsOfADiffHaveColors(t *testing.T) {
	d := newDesk(t)
	d.look = newStyles(false)
	text := "+not a diff\n| @@ -1,2 +1,2 @@\n|  same\n| -old\n| +new\n+not a diff\n@@ -1 +1 @@\n-old\n+new\nend\n-not"
	got := d.paint(text, d.look.plain)
	if ansi.Strip(got) != text {
		t.Errorf("the text is %q", ansi.Strip(got))
	}
	rows := strings.Split(got, "\n")
	for i, color := range []string{"", "2", "", "31", "32", "", "2", "31", "32", "", ""} {
		if painted := strings.Contains(rows[i], "\x1b["+color+"m"); painted != (color != "") {
			t.Errorf("row %q has not the color %q", rows[i], color)
		}
	}
	d.look = newStyles(true)
	if got := d.paint(text, d.look.plain); got != text {
		t.Errorf("without color it is %q", got)
	}
}

func TestOnASmallTerminalEveryLineFitsAndNothingDrivesIt(t *testing.T) {
	for _, size := range [][2]int{{20, 10}, {8, 4}, {1, 1}} {
		d := newDesk(t)
		d.do(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		l := d.enter("a question " + strings.Repeat("x", 500))
		d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""),
			event(live.ToolStarted, l.id, `{"path":"`+strings.Repeat("y", 500)+`"}`, hostile),
			ended(l.id, hostile, hostile, 1), event(live.Text, l.id, hostile+strings.Repeat("z", 5_000), ""),
			approvalNotice(7, l.id, 3))
		for line := range strings.SplitSeq(d.screen(), "\n") {
			if most := max(size[0], promptColumns+2); ansi.StringWidth(line) > most {
				t.Errorf("on %v a line has %d columns: %q", size, ansi.StringWidth(line), line)
			}
		}
		requireHarmless(t, ansi.Strip(d.screen()))
		requireHarmless(t, withoutStyles(d.printed()))
		if printed := d.printed(); strings.Count(printed, "x") < 500 && size[0] > 1 {
			t.Errorf("on %v the question is not whole", size)
		}
	}
}
