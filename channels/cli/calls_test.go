package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

func ended(id, tool, outcome string, position int) eventsMsg {
	return eventsMsg{{
		Kind: live.ToolEnded, Key: testKey(), MessageID: id, Tool: tool, Text: outcome, Position: position,
		At: time.Now(),
	}}
}

// approvalNotice asks for an approval of so many calls.
func approvalNotice(id int64, to string, calls int) showMsg {
	m := notice("approval", to, "Approval 7: an admin has to approve this.\n| @@ -1,1 +1,1 @@\n| -old\n| +new")
	asked := corebot.ApprovalRequest{Approval: corebot.Approval{
		ID: id, Request: id, Session: 1, Binding: corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Path: "a/"},
	}}
	for range calls {
		asked.All = append(asked.All, asked.Approval)
	}
	about := asked.NoticeOf()
	m.Notice = &about
	return showMsg{m, make(chan error, 1)}
}

// TestTheKeysOfARequestAreNamedHoweverNarrowTheTerminal: a person who does not see the key for no has only a yes.
func TestTheKeysOfARequestAreNamedHoweverNarrowTheTerminal(t *testing.T) {
	d := newDesk(t)
	l := d.enter("write it")
	d.do(deliveredMsg{letter: l}, approvalNotice(1234, l.id, 12))
	for width, want := range map[int]string{
		120: "? y once, s session, a always, n deny, N stop · approval 1234: 12 calls wait",
		60:  "? y once, s session, a always, n deny, N stop",
		40:  "? y s a n N · approval 1234",
		20:  "? y s a n N",
		13:  "? y s a n N",
	} {
		d.do(tea.WindowSizeMsg{Width: width, Height: 24})
		rows := strings.Split(ansi.Strip(d.screen()), "\n")
		if !slices.Contains(rows, want) {
			t.Errorf("at width %d: %q lacks %q", width, rows, want)
		}
	}
}

func TestACallThatWaitsForAnApprovalLooksLikeWaiting(t *testing.T) {
	d := newDesk(t)
	l := d.enter("write it")
	d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""),
		event(live.ToolStarted, l.id, "{}", "fs.write"),
		ended(l.id, "fs.write", live.Waiting, 2), event(live.TurnEnded, l.id, live.Waiting, ""),
		approvalNotice(7, l.id, 2))
	requireLacks(t, d.printed(), "✗")
	requireHas(t, d.screen(), "y once, s session, a always, n deny, N stop · approval 7: 2 calls wait")
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

// TestAnEventFromBeforeARequestLeavesItOpen: the events of a turn can come after the request that the turn made, from
// an attached daemon too.
func TestAnEventFromBeforeARequestLeavesItOpen(t *testing.T) {
	d := newDesk(t)
	early := event(live.ToolEnded, "q", "success", "fs.read")
	asks := approvalNotice(7, "q", 1)
	asks.message.CreatedAt = early[0].At.Add(time.Millisecond)
	d.do(asks, early)
	requireHas(t, d.screen(), "approval 7")
	late := event(live.TurnStarted, "q", "", "")
	late[0].At = asks.message.CreatedAt.Add(2 * time.Millisecond)
	d.do(late)
	requireLacks(t, d.screen(), "approval 7")
}

// TestOnlyWhatCanBeBoundHasAKeyForLonger: a request that can be approved only once has no other key.
func TestOnlyWhatCanBeBoundHasAKeyForLonger(t *testing.T) {
	d := newDesk(t)
	s := approvalNotice(7, "q", 1)
	about := corebot.ApprovalRequest{Approval: corebot.Approval{ID: 7, Request: 7, Session: 1}}.NoticeOf()
	s.message.Notice = &about
	d.do(s)
	requireHas(t, d.screen(), "y once, n deny, N stop · approval 7")
	d.alone("a")
	if d.editor.text() != "a" || len(d.letters) > 0 {
		t.Errorf("the key typed %q and sent %+v", d.editor.text(), d.letters)
	}
}

// TestAnAnswerThatWasNoneCanBeGivenAgain: the key works again after a notice that the request is still open.
func TestAnAnswerThatWasNoneCanBeGivenAgain(t *testing.T) {
	d := newDesk(t)
	d.do(approvalNotice(7, "q", 1))
	d.alone("a")
	open := notice("open", d.letters[0].id, "This can be approved only once. Approval 7 is still open.")
	open.Notice = &corebot.Notice{Kind: corebot.NoticeCommand, Actions: corebot.Approval{Request: 7}.Actions()}
	d.do(deliveredMsg{letter: d.letters[0]}, showMsg{open, make(chan error, 1)})
	d.alone("y")
	if len(d.letters) == 0 || d.letters[len(d.letters)-1].text != "/approve 7" {
		t.Errorf("sent %+v", d.letters)
	}
}

// TestTheRequestOfAMessageThatHasEndedHasNoKey, such as one that another terminal has stopped.
func TestTheRequestOfAMessageThatHasEndedHasNoKey(t *testing.T) {
	d := newDesk(t)
	d.do(approvalNotice(7, "q", 1))
	stopped := notice("stopped", "q", "Stopped.")
	stopped.Notice = &corebot.Notice{Kind: corebot.NoticeStopped}
	d.do(showMsg{stopped, make(chan error, 1)})
	requireLacks(t, d.screen(), "approval 7")
}

func TestOneKeyAnswersARequestIfNothingIsTyped(t *testing.T) {
	for key, want := range map[rune]string{
		'y': "/approve 7", 's': "/approve 7 session", 'a': "/approve 7 always", 'n': "/deny 7", 'N': "/deny 7 stop",
	} {
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
		d.alone(string(key))
		if len(d.letters) != 1 || d.letters[0].text != want || d.editor.text() != "" {
			t.Errorf("the key sent %+v, and the input is %q", d.letters, d.editor.text())
		}
		d.alone(string(key))
		if len(d.letters) != 1 || d.editor.text() != string(key) {
			t.Errorf("pressed again the key sent %+v, and the input is %q", d.letters, d.editor.text())
		}
	}
}

// alone presses a key and types nothing else until its pause is over.
func (d *desk) alone(key string) {
	d.onKey(tea.KeyPressMsg{Code: []rune(key)[0], Text: key})
	later := d.later
	d.later = nil
	for range later {
		d.do(keyMsg{7, key})
	}
}

// TestATextThatBeginsWithAKeyAnswersNothing: whoever types "also" approves nothing for always.
func TestATextThatBeginsWithAKeyAnswersNothing(t *testing.T) {
	d := newDesk(t)
	d.do(approvalNotice(7, "q", 1))
	for _, r := range "also" {
		d.onKey(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	if len(d.later) != 1 {
		t.Fatalf("%d pauses have begun", len(d.later))
	}
	d.do(keyMsg{7, "a"})
	if len(d.letters) > 0 || d.editor.text() != "also" {
		t.Errorf("it sent %+v, and the input is %q", d.letters, d.editor.text())
	}
	d.do(press('u', tea.ModCtrl))
	d.typed("y")
	d.do(keyMsg{6, "y"}) // of an earlier request
	if len(d.letters) > 0 {
		t.Errorf("the key of another request sent %+v", d.letters)
	}
	d.onKey(press(tea.KeyEnter, 0))
	if len(d.letters) != 1 || d.letters[0].text != "/approve 7" {
		t.Errorf("with Enter the key sent %+v", d.letters)
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

// TestADenialSaysWhyAndWhatWouldOpenIt under the line of its call.
func TestADenialSaysWhyAndWhatWouldOpenIt(t *testing.T) {
	d := newDesk(t)
	e := ended("q", "shell.exec", "denied", 3)
	e[0].Note = "only an admin may run commands. To open it: `corebot admin grant cli:local:7`"
	d.do(e, ended("q", "fs.list", "success", 4))
	requireHas(t, d.printed(), "shell.exec → denied [1]\n  only an admin may run commands. To open it: `corebot admin "+
		"grant cli:local:7`")
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

// TestARequestKeepsItsKeysBehindAnAnswerThatCameWithoutItsCall: the call waits and has not failed, and what runs it in
// the end is no question of anybody.
func TestARequestKeepsItsKeysBehindAnAnswerThatCameWithoutItsCall(t *testing.T) {
	const runs = "corebot:approval/7/run"
	up := notice("n", runs, "Approval 7 is given up")
	up.Notice = &corebot.Notice{Kind: corebot.NoticeRefused}
	for name, last := range map[string]tea.Msg{
		"it runs":        event(live.TurnStarted, runs, "[corebot] Approval 7 was given", ""),
		"it was no":      event(live.TurnEnded, runs, "refused", ""),
		"it is given up": showMsg{up, make(chan error, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			l := d.enter("write it")
			d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""),
				event(live.ToolStarted, l.id, "{}", "fs.write"), event(live.TurnEnded, l.id, live.Waiting, ""),
				approvalNotice(7, l.id, 1), event(live.TurnStarted, l.id, "", ""),
				event(live.ToolStarted, l.id, "{}", "fs.write"), ended(l.id, "fs.write", live.Waiting, 2),
				event(live.TurnEnded, l.id, "answered", ""))
			d.show(reply("r", l.id, "without it"))
			open := approvalNotice(7, runs, 1)
			open.message.ID = "open"
			d.do(open)
			requireHas(t, d.screen(), "approval 7")
			d.do(last)
			requireLacks(t, d.screen(), "approval 7")
			printed := d.printed()
			requireLacks(t, printed, "✗")
			requireLacks(t, printed, runs)
			requireLacks(t, printed, "[corebot]")
		})
	}
}
