package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// desk is a model with its hands on the table: what it printed, and what it handed to the door.
type desk struct {
	*model
	letters []letter
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	h, err := openHistory("")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{model: newModel(Options{NoColor: true, Chat: "main"}, h, 80, 24)}
	d.deliver = func(l letter) { d.letters = append(d.letters, l) }
	return d
}

func (d *desk) do(msgs ...tea.Msg) {
	for _, m := range msgs {
		d.Update(m)
	}
}

func (d *desk) typed(text string) {
	for _, r := range text {
		d.do(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func (d *desk) enter(text string) letter {
	d.typed(text)
	d.do(press(tea.KeyEnter, 0))
	if len(d.letters) == 0 {
		return letter{}
	}
	return d.letters[len(d.letters)-1]
}

func press(code rune, mod tea.KeyMod) tea.KeyPressMsg { return tea.KeyPressMsg{Code: code, Mod: mod} }

// printed is everything queued for the scrollback so far.
func (d *desk) printed() string {
	var lines []string
	for _, j := range d.printer.queue {
		lines = append(lines, j.lines...)
	}
	return strings.Join(lines, "\n")
}

func (d *desk) screen() string { return d.View().Content }

func (d *desk) show(m channels.Outbound) <-chan error {
	done := make(chan error, 1)
	d.do(showMsg{m, done})
	return done
}

func event(kind live.EventKind, id, text, tool string) eventsMsg {
	return eventsMsg{{Kind: kind, Key: testKey(), MessageID: id, Text: text, Tool: tool, At: time.Now()}}
}

func requireHas(t *testing.T, where, what string) {
	t.Helper()
	if !strings.Contains(where, what) {
		t.Fatalf("%q is missing in:\n%s", what, where)
	}
}

func requireLacks(t *testing.T, where, what string) {
	t.Helper()
	if strings.Contains(where, what) {
		t.Fatalf("%q should not be in:\n%s", what, where)
	}
}

func TestAnAnswerStreamsAndIsReplacedByTheReply(t *testing.T) {
	d := newDesk(t)
	l := d.enter("hello")
	d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""), event(live.Text, l.id, "wrong", ""),
		event(live.TextReset, l.id, "", ""), event(live.Text, l.id, "so **far", ""),
		event(live.Text, l.id, "** \x1b[2J", ""))
	requireHas(t, d.printed(), "› hello")
	requireHas(t, d.screen(), "so **far** ␛[2J")
	requireLacks(t, d.screen(), "wrong")
	d.do(event(live.TurnEnded, l.id, "answered", ""))
	requireHas(t, d.screen(), "so **far**")
	d.show(reply("r", l.id, "# all of it"))
	requireHas(t, d.printed(), "# all of it")
	requireLacks(t, d.screen()+d.printed(), "so **far**")
	d.do(event(live.Text, l.id, "too late", ""))
	requireLacks(t, d.screen(), "too late")
	if d.busy() {
		t.Error("still busy after the answer")
	}
}

func TestWhatWasStreamedStaysWhenNoReplyComes(t *testing.T) {
	d := newDesk(t)
	l := d.enter("hello")
	d.do(deliveredMsg{letter: l}, event(live.Text, l.id, "half an", ""), event(live.TurnEnded, l.id, "stopped", ""))
	requireHas(t, d.printed(), "half an\n(partial answer, stopped)")

	d = newDesk(t)
	l = d.enter("hello")
	d.do(deliveredMsg{letter: l}, event(live.Text, l.id, "whole, unsent", ""),
		event(live.TurnEnded, l.id, "answered", ""),
		event(live.TurnStarted, "next", "", ""))
	requireLacks(t, d.printed(), "whole, unsent")
	d.do(leaveMsg{})
	requireHas(t, d.printed(), "whole, unsent\n(partial answer)")
}

func TestToolsAreShownWhileTheyRunAndHowTheyEnded(t *testing.T) {
	d := newDesk(t)
	args := `{"path":"` + strings.Repeat("long/", 50) + `"}`
	d.do(event(live.ToolStarted, "q", args, "fs.read"), event(live.ToolStarted, "q", "{\"a\":\x1b1}", "shell.exec"))
	requireHas(t, d.screen(), "fs.read path=long/")
	requireHas(t, d.screen(), "shell.exec {\"a\":␛1}")
	requireLacks(t, d.screen(), args)
	d.do(event(live.ToolEnded, "q", "denied", "shell.exec"), event(live.ToolEnded, "q", "success", "fs.read"))
	requireHas(t, d.printed(), "✗ shell.exec {\"a\":␛1} → denied [1]\n✓ fs.read")
	for line := range strings.SplitSeq(d.printed(), "\n") {
		if len([]rune(line)) > 80 || strings.Contains(line, "long") && !strings.HasSuffix(line, "… [2]") {
			t.Errorf("the line of a call is %q", line)
		}
	}
	requireLacks(t, d.screen(), "fs.read")
}

func TestTheOrderOfTypingIsTheOrderOfAccepting(t *testing.T) {
	d := newDesk(t)
	one := d.enter("one")
	d.enter("two")
	if len(d.letters) != 1 {
		t.Fatalf("%d letters at the door at once", len(d.letters))
	}
	d.do(deliveredMsg{letter: one})
	if len(d.letters) != 2 || d.letters[1].text != "two" {
		t.Fatalf("letters %+v", d.letters)
	}
}

func TestARefusedTextIsBackInTheInputAndKeepsItsID(t *testing.T) {
	d := newDesk(t)
	one := d.enter("one")
	d.enter("two")
	d.typed("thr")
	d.do(deliveredMsg{one, corebot.WithHint(corebot.ErrTooLarge, "make it shorter")})
	requireHas(t, d.printed(), "too large (make it shorter)")
	if got := d.editor.text(); got != "one\ntwo\nthr" {
		t.Errorf("the input holds %q", got)
	}
	if d.busy() {
		t.Error("waiting for what was refused")
	}

	d = newDesk(t)
	one = d.enter("one")
	d.do(deliveredMsg{one, corebot.ErrCommitUnknown})
	if again := d.enter(""); again != one {
		t.Errorf("sent again as %+v, first as %+v", again, one)
	}
	d.do(deliveredMsg{one, corebot.ErrCommitUnknown})
	if other := d.enter(" more"); other.id == one.id || other.text != "one more" {
		t.Errorf("another text went as %+v", other)
	}
}

func TestCtrlCStopsTheTurnAndThenLeaves(t *testing.T) {
	d := newDesk(t)
	l := d.enter("hello")
	d.do(deliveredMsg{letter: l}, event(live.TurnStarted, l.id, "", ""), event(live.Text, l.id, "half an", ""),
		press('c', tea.ModCtrl))
	stop := d.letters[len(d.letters)-1]
	if stop.text != "/stop" {
		t.Fatalf("Ctrl-C sent %+v", stop)
	}
	requireHas(t, d.printed(), "stopping")
	if d.gone {
		t.Fatal("the first Ctrl-C left")
	}
	d.do(deliveredMsg{letter: stop})
	d.show(notice("n1", stop.id, "Stopping."))
	requireHas(t, d.screen(), "half an")
	d.show(notice("n2", l.id, "Stopped."))
	requireHas(t, d.printed(), "half an\n(partial answer, stopped)\n\nStopped.")
	d.do(event(live.TurnEnded, l.id, "stopped", ""))
	l = d.enter("another")
	d.do(deliveredMsg{letter: l}, press('c', tea.ModCtrl))
	if n := len(d.letters); n != 4 || d.letters[3].text != "/stop" || d.gone {
		t.Fatalf("Ctrl-C in the next turn: %d letters, gone %v", n, d.gone)
	}
	d.do(deliveredMsg{letter: d.letters[3]})
	d.show(notice("n3", d.letters[3].id, "Stopping."))
	d.do(press('c', tea.ModCtrl))
	if !d.gone {
		t.Fatal("the second Ctrl-C did not leave, though the turn has not ended")
	}
}

func TestTypingAfterCtrlCIsNotLeaving(t *testing.T) {
	d := newDesk(t)
	l := d.enter("hello")
	d.do(deliveredMsg{letter: l}, press('c', tea.ModCtrl))
	d.typed("wait")
	d.do(press('c', tea.ModCtrl), press('c', tea.ModCtrl))
	if n := len(d.letters); n != 3 || d.gone {
		t.Errorf("%d letters, gone %v: the first clears, the second stops again", n, d.gone)
	}
}

func TestCtrlCClearsWhatIsTypedAndTheArrowBringsItBack(t *testing.T) {
	d := newDesk(t)
	d.typed("a long thought")
	requireLacks(t, d.printed(), "cleared")
	d.do(press('c', tea.ModCtrl))
	if d.gone || d.editor.text() != "" || len(d.letters) != 0 {
		t.Fatalf("gone %v, input %q, %d letters", d.gone, d.editor.text(), len(d.letters))
	}
	requireHas(t, d.printed(), "the input is cleared")
	d.do(press(tea.KeyUp, 0))
	if got := d.editor.text(); got != "a long thought" {
		t.Errorf("the arrow brought back %q", got)
	}
	d.do(press('c', tea.ModCtrl), press('c', tea.ModCtrl))
	if !d.gone {
		t.Error("with nothing typed and nothing running it did not leave")
	}
}

func TestWhatIsTypedSurvivesAnEndThatNobodyAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prompts")
	d := newDesk(t)
	d.history.path = path
	d.typed("unfinished")
	d.do(leaveMsg{})
	requireHas(t, d.printed(), "not sent: unfinished")
	if h, err := openHistory(path); err != nil || len(h.prompts) != 1 || h.prompts[0].Text != "unfinished" {
		t.Errorf("the history has %+v: %v", h.prompts, err)
	}
}

func TestAQuestionOfAnotherTerminalIsShownWithItsAnswer(t *testing.T) {
	d := newDesk(t)
	mine := d.enter("mine")
	d.do(deliveredMsg{letter: mine}, event(live.TurnStarted, mine.id, "mine", ""))
	d.show(reply("r1", mine.id, "yours"))
	d.do(event(live.TurnStarted, "theirs", "what do they ask?", ""), event(live.Text, "theirs", "half", ""))
	// a restart
	d.do(event(live.TurnStarted, "theirs", "what do they ask?", ""), event(live.Text, "theirs", "all of it", ""))
	requireLacks(t, d.screen(), "halfall")
	d.show(reply("r2", "theirs", "an answer"))
	if got := strings.Count(d.printed(), "what do they ask?"); got != 1 || strings.Count(d.printed(), "› mine") != 1 {
		t.Errorf("the questions are there %d times:\n%s", got, d.printed())
	}
}

func TestALostConnectionIsSaidAndWaitedFor(t *testing.T) {
	d := newDesk(t)
	d.typed("kept")
	d.do(connectionMsg{"Corebot has stopped.", true})
	requireHas(t, d.printed(), "Corebot has stopped.")
	requireHas(t, d.screen(), "waiting for Corebot to come back")
	requireHas(t, d.screen(), "kept")
	d.do(connectionMsg{"Attached again.", false})
	requireHas(t, d.printed(), "Attached again.")
	requireLacks(t, d.screen(), "waiting for Corebot")
}

func TestARefusedStopIsSaid(t *testing.T) {
	d := newDesk(t)
	d.do(event(live.TurnStarted, "q", "", ""), press('c', tea.ModCtrl))
	d.do(deliveredMsg{d.letters[0], corebot.ErrDiskFull})
	requireHas(t, d.printed(), "stop the turn: the disk is full")
	d.do(press('c', tea.ModCtrl))
	if len(d.letters) != 2 || d.gone {
		t.Error("Ctrl-C after a refused stop did not try again")
	}
}

func TestWaysToLeave(t *testing.T) {
	for name, leave := range map[string]func(*desk){
		"Ctrl-C when idle":       func(d *desk) { d.do(press('c', tea.ModCtrl)) },
		"Ctrl-D on empty input":  func(d *desk) { d.do(press('d', tea.ModCtrl)) },
		"/quit":                  func(d *desk) { d.enter("/quit") },
		"/exit":                  func(d *desk) { d.enter(" /exit ") },
		"the end of the context": func(d *desk) { d.do(leaveMsg{}) },
	} {
		d := newDesk(t)
		leave(d)
		if !d.gone || len(d.letters) > 0 {
			t.Errorf("%s: gone %v, sent %v", name, d.gone, d.letters)
		}
	}
	d := newDesk(t)
	d.typed("x")
	d.do(press(tea.KeyHome, 0), press('d', tea.ModCtrl))
	if d.gone || !d.editor.empty() {
		t.Errorf("Ctrl-D in a text: gone %v, text %q", d.gone, d.editor.text())
	}
	if d.enter("/tool x"); len(d.letters) != 1 {
		t.Error("another slash command did not go to the door")
	}
}

func TestLeavingWaitsForWhatIsOnItsWay(t *testing.T) {
	d := newDesk(t)
	l := d.enter("last words")
	d.do(press('d', tea.ModCtrl))
	if d.gone {
		t.Fatal("left before the door answered")
	}
	d.do(deliveredMsg{letter: l})
	if !d.gone {
		t.Fatal("stayed after the door answered")
	}

	for name, end := range map[string]tea.Msg{
		"refused":    deliveredMsg{l, corebot.ErrDiskFull},
		"left again": press('c', tea.ModCtrl),
	} {
		d = newDesk(t)
		l = d.enter("last words")
		if _, ok := end.(deliveredMsg); ok {
			end = deliveredMsg{l, corebot.ErrDiskFull}
		}
		d.do(press('d', tea.ModCtrl), end)
		if !d.gone || !strings.Contains(d.printed(), "perhaps not sent: last words") {
			t.Errorf("%s: gone %v, printed:\n%s", name, d.gone, d.printed())
		}
	}
}

func TestAReplySaysWhatItAnswersUnlessThatStandsRightAboveIt(t *testing.T) {
	d := newDesk(t)
	one := d.enter("question one")
	d.do(deliveredMsg{letter: one})
	d.show(reply("r1", one.id, "answer one"))
	requireLacks(t, d.printed(), "in reply to")
	two := d.enter("question two")
	d.do(deliveredMsg{letter: two})
	d.show(reply("r1b", one.id, "more on one"))
	requireHas(t, d.printed(), "in reply to: question one\nmore on one")
	d.show(reply("old", "last-week", "an old answer"))
	requireHas(t, d.printed(), "in reply to the earlier message last-week\nan old answer")
}

func TestAQuestionFromAnEarlierSessionIsFoundInTheHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.add(prompt{"id-1", "how are\nyou?"}); err != nil {
		t.Fatal(err)
	}
	h, err = openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{model: newModel(Options{NoColor: true}, h, 80, 24)}
	d.show(reply("r", "id-1", "fine"))
	requireHas(t, d.printed(), "in reply to: how are you?\nfine")
}

func TestAReplyThatOvertakesItsAcceptComesUnderItsQuestion(t *testing.T) {
	d := newDesk(t)
	l := d.enter("quick")
	d.show(reply("r", l.id, "done"))
	d.do(deliveredMsg{letter: l})
	requireHas(t, d.printed(), "› quick\n\ndone")
	if strings.Count(d.printed(), "quick") != 1 || d.busy() {
		t.Errorf("busy %v, printed:\n%s", d.busy(), d.printed())
	}
}

func TestAReplyCountsAsShownWhenItsLastLineIsWrittenAndIsShownOnce(t *testing.T) {
	d := newDesk(t)
	text := strings.Repeat("line\n\n", 40)
	first := d.show(reply("r", "", text))
	second := d.show(reply("r", "", text))
	if n := strings.Count(d.printed(), "line"); n != 40 {
		t.Fatalf("%d lines are printed", n)
	}
	d.do(readyMsg{})
	for range 3 { // half a screen at a time
		d.do(printedMsg{})
		if len(first) > 0 {
			t.Fatal("counted as shown before all of it was written")
		}
	}
	for len(d.printer.queue) > 0 {
		d.do(printedMsg{})
	}
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
}

func TestTheSpinnerRestsWhenNothingRuns(t *testing.T) {
	d := newDesk(t)
	if d.animate() != nil {
		t.Fatal("it turns in an idle chat")
	}
	l := d.enter("hello")
	if !d.ticking {
		t.Fatal("it does not turn while a message waits")
	}
	if d.animate() != nil {
		t.Error("a second one was started")
	}
	d.do(deliveredMsg{letter: l})
	d.show(reply("r", l.id, "hi"))
	d.do(tickMsg{})
	if d.ticking {
		t.Error("it turns after the answer")
	}
}

func TestTheLivePartStaysWithinHalfTheScreenAtEverySize(t *testing.T) {
	d := newDesk(t)
	d.do(event(live.Text, "q", strings.Repeat("many words ", 500), ""))
	for _, tool := range []string{"a", "b", "c", "d"} {
		d.do(event(live.ToolStarted, "q", "{}", tool))
	}
	for _, size := range [][2]int{{80, 24}, {40, 18}, {200, 60}, {80, 14}} {
		d.do(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		lines := strings.Split(d.screen(), "\n")
		if len(lines) > size[1]/2 {
			t.Errorf("%d rows of %d", len(lines), size[1])
		}
	}
	d.do(tea.WindowSizeMsg{}) // some terminals say so while they start
	_ = d.screen()
}

func TestAStreamIsBounded(t *testing.T) {
	var tr turn
	for range 40 {
		tr.append(strings.Repeat("é", 8<<10))
	}
	if len(tr.text) > 2*streamKept || !tr.cut || strings.ContainsRune(tr.text, '\ufffd') {
		t.Errorf("%d bytes are kept, cut %v", len(tr.text), tr.cut)
	}
}

func TestRecentForgetsTheOldestOnly(t *testing.T) {
	var r recent
	ids := make([]string, recentIDs+1)
	for i := range ids {
		ids[i] = strings.Repeat("x", i%7) + string(rune('A'+i%26)) + newLetter("").id
		r.add(ids[i])
	}
	if r.has(ids[0]) || slices.ContainsFunc(ids[1:], func(id string) bool { return !r.has(id) }) || r.add(ids[5]) {
		t.Error("the wrong ones were forgotten")
	}
}
