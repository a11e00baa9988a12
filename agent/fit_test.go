package agent

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// wordCount is a tokenizer of which a test can see what it counts: a word is a token.
type wordCount struct{}

func (wordCount) Count(text string) int { return len(strings.Fields(text)) }

// dice makes up the cases of a property.
type dice struct {
	*testing.T
	*rand.Rand
}

// upTo is a number from least to most.
func (d *dice) upTo(least, most int) int { return least + d.IntN(most-least+1) }

// property checks many cases, each of which can be had again by its seed.
func property(t *testing.T, check func(*dice)) {
	t.Helper()
	seed := uint64(0)
	defer func() {
		if t.Failed() {
			t.Logf("that was case %d", seed)
		}
	}()
	for ; seed < 400; seed++ {
		check(&dice{t, rand.New(rand.NewPCG(seed, 1))})
	}
}

// text is of few characters, so that they meet: of one to four bytes, white space, digits, one that is invisible and an
// invalid one.
func (d *dice) text() string {
	var b strings.Builder
	for range d.upTo(0, 60) {
		b.WriteString([]string{"a", "B", "7", " ", "\n", ".", "é", "漢", "🦊", "\u200b", "\xff"}[d.IntN(11)])
	}
	return b.String()
}

// words are n words that no other call gives.
func words(t *dice, name string, most int) string {
	n := t.upTo(0, most)
	return strings.TrimSpace(name + strings.Repeat(" word", n))
}

// drawRound is an answer with calls, and their results. Models use the ids of calls again.
func drawRound(t *dice, name string) []llm.Message {
	answer := llm.Message{Role: llm.Assistant, Text: words(t, name, 5)}
	var results []llm.Message
	for i := range t.upTo(1, 4) {
		id := fmt.Sprint("call", i)
		answer.Calls = append(answer.Calls, corebot.ToolCall{ID: id, Tool: "web.search", Args: []byte(`{}`)})
		results = append(results, llm.Message{
			Role: llm.ToolRole, CallID: id,
			Text: words(t, fmt.Sprint(name, "-", id), 150),
		})
	}
	return append([]llm.Message{answer}, results...)
}

func drawView(t *dice) view {
	v := view{
		tools: []llm.Tool{{Name: "web.search", Description: "searches"}},
		head:  []llm.Message{{Role: llm.System, Text: words(t, "system", 10)}},
	}
	for i := range t.upTo(0, 5) {
		turn := []llm.Message{{Role: llm.User, Text: words(t, fmt.Sprint("question", i), 50)}}
		for j := range t.upTo(0, 2) {
			turn = append(turn, drawRound(t, fmt.Sprint("past", i, "-", j))...)
		}
		v.past = append(v.past, append(turn, llm.Message{
			Role: llm.Assistant,
			Text: words(t, fmt.Sprint("answer", i), 50),
		}))
	}
	v.present = []llm.Message{{Role: llm.User, Text: "situation"}, {Role: llm.User, Text: words(t, "message", 100)}}
	for i := range t.upTo(0, 5) {
		v.present = append(v.present, drawRound(t, fmt.Sprint("round", i))...)
		if t.IntN(2) == 0 {
			v.present = append(v.present, llm.Message{Role: llm.User, Text: words(t, fmt.Sprint("steer", i), 20)})
		}
	}
	return v
}

// least is what fit can make of a view at most: nothing of the past, one round, its results cut to nothing.
func least(m *meter, v view) int {
	v.past = nil
	rounds := roundsOf(v.present)
	var kept []llm.Message
	for i, msg := range v.present {
		in := -1
		for n, r := range rounds {
			if r.from <= i && i < r.to {
				in = n
			}
		}
		if in >= 0 && in < len(rounds)-1 {
			continue
		}
		if msg.Role == llm.ToolRole {
			msg.Text = shorten(msg.Text, 1)
		}
		kept = append(kept, msg)
	}
	v.present = kept
	return m.costOf(v) + 20 // for the note in the place of what is left out
}

func TestWhatIsFitIsWithinTheRoomPairedAndInOrder(t *testing.T) {
	property(t, func(t *dice) {
		v, m := drawView(t), newMeter(wordCount{})
		all := v.messages()
		room := t.upTo(least(m, v), m.costOf(v)+30)
		got := m.fit(v, room)
		if cost := m.costOf(view{tools: v.tools, present: got}); cost > room {
			t.Fatalf("%d tokens in a room of %d", cost, room)
		}
		if m.costOf(v) <= room && !reflect.DeepEqual(got, all) {
			t.Fatalf("everything had room, and %d of %d messages are there", len(got), len(all))
		}
		checkPaired(t, got)
		checkOrder(t, got, all)
		checkKept(t, got, v)
		if !reflect.DeepEqual(all, v.messages()) {
			t.Fatal("the view was changed: the next call would have less than there is")
		}
	})
}

// checkPaired: behind an answer with calls stand its results, one for each, and results stand nowhere else.
func checkPaired(t interface{ Fatalf(string, ...any) }, messages []llm.Message) {
	var open []string
	for i, msg := range messages {
		if msg.Role == llm.ToolRole {
			if len(open) == 0 || open[0] != msg.CallID {
				t.Fatalf("message %d is the result of %q, the calls that wait are %q", i, msg.CallID, open)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			t.Fatalf("message %d stands where the results of %q should", i, open)
		}
		for _, c := range msg.Calls {
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		t.Fatalf("the calls %q have no results", open)
	}
}

// origin finds a message that may have been shortened: every text of a view begins with a name of its own.
func origin(all []llm.Message, m llm.Message) int {
	name, _, _ := strings.Cut(m.Text, " ")
	for i, o := range all {
		if first, _, _ := strings.Cut(o.Text, " "); o.Role == m.Role &&
			(first == name || strings.Contains(m.Text, "bytes left out]") &&
				strings.HasPrefix(first, strings.TrimSuffix(name, "…"))) {
			return i
		}
	}
	return -1
}

func checkOrder(t *dice, got, all []llm.Message) {
	last := -1
	for i, m := range got {
		if strings.HasPrefix(m.Text, "<data kind=\"left out\">") || m.Role == llm.ToolRole {
			continue // a note; and results stand behind their calls
		}
		at := origin(all, m)
		if at <= last {
			t.Fatalf("message %d, %q, was message %d, behind %d", i, m.Text, at, last)
		}
		last = at
	}
}

// checkKept: what the operator wrote, what users say in this turn, and the last answer with all its results.
func checkKept(t *dice, got []llm.Message, v view) {
	whole := append([]llm.Message{}, v.head...)
	for _, m := range v.present {
		if m.Role == llm.User {
			whole = append(whole, m)
		}
	}
	for _, m := range whole {
		if at := origin(got, m); at < 0 || got[at].Text != m.Text {
			t.Fatalf("%q is not there as it was", m.Text)
		}
	}
	rounds, left := roundsOf(v.present), roundsOf(got)
	if len(rounds) == 0 {
		return
	}
	last := rounds[len(rounds)-1]
	if r := left[len(left)-1]; r.to-r.from != last.to-last.from || got[r.from].Text != v.present[last.from].Text {
		t.Fatalf("the last answer is %q with %d results", got[r.from].Text, r.to-r.from-1)
	}
}

func TestOlderResultsAreShortenedBeforeAnyEarlierTurnIsLeftOut(t *testing.T) {
	long := strings.Repeat("word ", 1_000)
	round := func(id string) []llm.Message {
		return []llm.Message{
			{Role: llm.Assistant, Calls: []corebot.ToolCall{{ID: id}}},
			{Role: llm.ToolRole, CallID: id, Text: long},
		}
	}
	v := view{
		past:    [][]llm.Message{{{Role: llm.User, Text: "before"}, {Role: llm.Assistant, Text: "then"}}},
		present: []llm.Message{{Role: llm.User, Text: "now"}},
	}
	for _, id := range []string{"a", "b", "c"} {
		v.present = append(v.present, round(id)...)
	}
	m := newMeter(wordCount{})
	for _, c := range []struct {
		room  int
		past  int
		whole []bool // the results
	}{
		{3_100, 2, []bool{true, true, true}},
		{2_500, 2, []bool{false, true, true}},
		{1_500, 2, []bool{false, false, true}},
		{500, 0, []bool{false}}, // earlier answers of the turn go before the last result is shortened
	} {
		got := m.fit(v, c.room)
		var whole []bool
		past := 0
		for _, msg := range got {
			if msg.Role == llm.ToolRole {
				whole = append(whole, msg.Text == long)
			}
			if msg.Text == "before" || msg.Text == "then" {
				past++
			}
		}
		if past != c.past || !reflect.DeepEqual(whole, c.whole) {
			t.Errorf("in a room of %d, %d messages of the past are left and the results are whole: %v; want %d and %v",
				c.room, past, whole, c.past, c.whole)
		}
	}
}

func TestThePastIsTheNewestTurnsInAsMuchDetailAsHasRoom(t *testing.T) {
	property(t, func(t *dice) {
		var turns []pastTurn // newest first
		for i := range t.upTo(0, 6) {
			turns = append(turns, drawPast(t, i))
		}
		m := newMeter(wordCount{})
		room := t.upTo(0, 3_000)
		shown := m.pastWithin(turns, room)
		cost := 0
		for i, turn := range shown {
			of := len(shown) - 1 - i
			if turn[0].Role != llm.User || !strings.HasPrefix(turn[0].Text, fmt.Sprint("question", of)) {
				t.Fatalf("turn %d begins with %q: the newest %d are to be there, oldest first", i, turn[0].Text,
					len(shown))
			}
			last := turn[len(turn)-1]
			if last.Role != llm.Assistant || !strings.HasPrefix(last.Text, fmt.Sprint("answer", of)) {
				t.Fatalf("turn %d ends with %q", i, last.Text)
			}
			checkPaired(t, turn)
			cost += m.cost(turn...)
		}
		if cost > room {
			t.Fatalf("%d tokens in a room of %d", cost, room)
		}
		if len(shown) < len(turns) {
			if next := m.cost(turns[len(shown)].messages(glimpse)...); cost+next <= room {
				t.Fatalf("%d of %d tokens are used, and the next turn takes %d", cost, room, next)
			}
		}
	})
}

func drawPast(t *dice, i int) pastTurn {
	p := pastTurn{entries: []corebot.HistoryEntry{{
		Seq: int64(i), Speaker: corebot.SpeakerUser,
		Parts: corebot.TextPart(words(t, fmt.Sprint("question", i), 300)),
	}}}
	for j := range t.upTo(0, 3) {
		for _, m := range drawRound(t, fmt.Sprint("past", i, "-", j)) {
			e := corebot.HistoryEntry{
				Seq: int64(i), Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(m.Text),
				Calls: m.Calls,
			}
			if m.Role == llm.ToolRole {
				e.Speaker, e.CallID = corebot.SpeakerTool, m.CallID
			}
			p.entries = append(p.entries, e)
		}
	}
	p.entries = append(p.entries, corebot.HistoryEntry{
		Seq: int64(i), Speaker: corebot.SpeakerAssistant,
		Parts: corebot.TextPart(words(t, fmt.Sprint("answer", i), 300)),
	})
	return p
}

func TestATextIsNeverLongerForBeingShortened(t *testing.T) {
	property(t, func(t *dice) {
		text, n := t.text(), t.upTo(0, 40)
		if short := shorten(text, n); len(short) > len(text) || short != text && len(short) > n+40 {
			t.Fatalf("%d bytes of %q are %q", n, text, short)
		}
	})
}

func TestTheBytesOfATextBoundItsTokens(t *testing.T) {
	property(t, func(t *dice) { // what meter.fits relies on, of the tokenizer that it does not know
		if text := t.text(); (llm.Estimate{}).Count(text) > len(text) {
			t.Fatalf("%q has %d bytes and is taken to have %d tokens", text, len(text), llm.Estimate{}.Count(text))
		}
	})
}
