package agent

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/outside"
)

const (
	// shortResult is how many bytes of a tool result are kept when room is short.
	shortResult = 400
	// shortText is how many bytes of what was said are kept when even that is too long.
	shortText = 2_000
	// maxPastRows bounds how many entries are read for one prompt, whatever they cost.
	maxPastRows = 5_000
)

// pastTurn is an earlier turn of the session that is in play.
type pastTurn struct {
	entries []corebot.HistoryEntry // in order, beginning with its user's
	cut     bool                   // results were shortened as they were read
}

func (p pastTurn) place() (session, seq int64) { return p.entries[0].Session, p.entries[0].Seq }

// detail is how much of an earlier turn is shown.
type detail uint8

const (
	whole   detail = iota
	brief          // tool results shortened
	gist           // only what users said and the last answer
	glimpse        // the same, shortened
)

// messages shows the turn. No call is ever shown without its result, nor a result without its call.
func (p pastTurn) messages(d detail) []llm.Message {
	if note := p.unaskedNote(); note != "" {
		return unasked(note, p.entries[0].Text(), d)
	}
	if d >= gist {
		return p.said(d == glimpse)
	}
	out := make([]llm.Message, len(p.entries))
	for i, e := range p.entries {
		switch e.Speaker {
		case corebot.SpeakerUser:
			out[i] = llm.Message{
				Role: llm.User, About: about(e.Sender, e.Name, e.Metadata), Text: e.Text(),
				Parts: corebot.Attachments(e.Parts),
			}
		case corebot.SpeakerAssistant:
			out[i] = llm.Message{Role: llm.Assistant, Text: answered(e), Calls: e.Calls}
		case corebot.SpeakerTool:
			out[i] = llm.Message{Role: llm.ToolRole, Text: e.Text(), CallID: e.CallID}
			if d == brief {
				out[i].Text = shortenResult(e.Text(), shortResult)
			}
		}
	}
	return out
}

// answered is the text of an answer. Some models refuse an answer without a text in their context.
func answered(e corebot.HistoryEntry) string {
	text := e.Text()
	if files := corebot.Attachments(e.Parts); text == "" && len(files) > 0 {
		text = fmt.Sprintf("(an answer of %d files without a text)", len(files))
	}
	return text
}

// postedNote stands where a user's message would: some providers want them in turns.
const postedNote = "<data kind=\"sent\">you sent this here from another chat</data>"

// jobNote stands before the result of a job in the background.
const jobNote = "<data kind=\"job\">a job of yours in the background has ended, and the chat was told</data>"

// heartbeatNote stands before the answer of a heartbeat.
const heartbeatNote = "<data kind=\"heartbeat\">nobody asked for this: a heartbeat of yours told the chat</data>"

// approvalNote stands before what the chat was told of a call that was never made.
const approvalNote = "<data kind=\"approval\">a call of yours that waited for an approval was not made</data>"

// unaskedNote is what stands before something that was said without a user's message; empty: a user began the turn.
func (p pastTurn) unaskedNote() string {
	switch first := p.entries[0]; {
	case first.Posted():
		return postedNote
	case first.OfJob():
		return jobNote
	case first.OfApproval():
		return approvalNote
	case first.OfTask() && len(p.entries) == 1:
		return heartbeatNote
	}
	return ""
}

// unasked shows what was said without a user's message before it.
func unasked(note, text string, d detail) []llm.Message {
	if d == glimpse {
		text = shorten(text, shortText)
	}
	return []llm.Message{{Role: llm.User, Text: note}, {Role: llm.Assistant, Text: text}}
}

// said is the turn without its calls.
func (p pastTurn) said(short bool) []llm.Message {
	var out []llm.Message
	calls := 0
	for _, e := range p.entries {
		calls += len(e.Calls)
		switch {
		case e.Speaker == corebot.SpeakerUser:
			with := e.Metadata
			if short {
				with = nil
			}
			out = append(out, llm.Message{
				Role: llm.User, About: about(e.Sender, e.Name, with), Text: e.Text(),
				Parts: corebot.Attachments(e.Parts),
			})
		case e.Speaker == corebot.SpeakerAssistant && len(e.Calls) == 0:
			out = append(out, llm.Message{Role: llm.Assistant, Text: answered(e)})
		}
	}
	if short {
		for i := range out {
			out[i].Text = shorten(out[i].Text, shortText)
		}
	}
	if calls == 0 {
		return out
	}
	note := llm.Message{
		Role: llm.User,
		Text: fmt.Sprintf("<data kind=\"left out\">%d tool calls of this turn, with their results</data>", calls),
	}
	answer := len(out)
	if out[answer-1].Role == llm.Assistant {
		answer--
	}
	return slices.Insert(out, answer, note)
}

// least is how much of the turn a detail shows at best.
func (p pastTurn) least() detail {
	if p.cut {
		return brief
	}
	return whole
}

// pastWithin shows the newest of the turns (newest first) that fit into room, oldest first. A turn that does not fit
// whole is shown in less detail. The first turn that does not fit at all ends the list, so that nothing is missing in
// between.
func (m *meter) pastWithin(turns []pastTurn, room int) [][]llm.Message {
	var kept [][]llm.Message
	for _, turn := range turns {
		shown := turn.messages(turn.least())
		for d := turn.least() + 1; d <= glimpse && m.cost(shown...) > room; d++ {
			shown = turn.messages(d)
		}
		if room -= m.cost(shown...); room < 0 {
			break
		}
		kept = append(kept, shown)
	}
	slices.Reverse(kept)
	return kept
}

// pastWhole shows the turns (newest first) in as much detail as there is, oldest first.
func pastWhole(turns []pastTurn) [][]llm.Message {
	shown := make([][]llm.Message, 0, len(turns))
	for _, turn := range slices.Backward(turns) {
		shown = append(shown, turn.messages(turn.least()))
	}
	return shown
}

// past is the part of the session that the turn may be shown word for word, and the summary of what is before that.
type past struct {
	summary corebot.Summary
	turns   []pastTurn // newest first
	newest  time.Time  // of its last entry; zero if there is none
	more    bool       // there are older turns behind the summary, which were not read
}

// readPast takes the entries of the session, which come newest first, until there is more than most tokens of them. The
// last turn that it begins, it takes to its beginning.
func readPast(summary corebot.Summary, entries iter.Seq2[corebot.HistoryEntry, error], most int) (past, error) {
	p, r := past{summary: summary, newest: summary.At}, reading{most: most}
	for e, err := range entries {
		if err != nil {
			return p, fmt.Errorf("read the history: %w", err)
		}
		if r.rows == 0 {
			p.newest = e.At
		}
		if !r.take(e) {
			p.more = true
			break
		}
	}
	p.turns = r.end()
	return p, nil
}

// reading gathers entries, which come newest first, into turns. Costs are estimates: they only bound what is read.
type reading struct {
	most  int // tokens
	whole int // of all entries as they are
	brief int // of all entries with their results shortened
	rows  int
	turns []pastTurn
}

// take adds an entry and says whether it wants more. Results that no prompt has room for are shortened at once: a turn
// may have megabytes of them.
func (r *reading) take(e corebot.HistoryEntry) bool {
	if begins := len(r.turns) == 0 || r.last().entries[0].Seq != e.Seq; begins {
		if r.brief > r.most {
			return false
		}
		r.turns = append(r.turns, pastTurn{})
	}
	if e.Speaker != corebot.SpeakerTool { // results were marked when they came in
		text := e.Text()
		if marked := outside.Text(text); marked != text { // seldom
			e.Parts = corebot.WithText(e.Parts, marked)
		}
	}
	full, short := estimate(e), e
	brief := full
	if e.Speaker == corebot.SpeakerTool {
		short.Parts = corebot.TextPart(shortenResult(e.Text(), shortResult))
		brief = estimate(short)
	}
	r.brief += brief
	if r.whole > r.most && len(short.Text()) < len(e.Text()) {
		r.last().cut, e = true, short
	}
	r.whole += full
	r.last().entries = append(r.last().entries, e)
	r.rows++
	return r.rows < maxPastRows
}

func estimate(e corebot.HistoryEntry) int {
	n := messageOverhead + llm.Estimate{}.Count(e.Text()) + partTokens*len(corebot.Attachments(e.Parts))
	if !e.Metadata.Empty() {
		n += llm.Estimate{}.Count(e.Metadata.String())
	}
	for _, c := range e.Calls {
		n += messageOverhead + llm.Estimate{}.Count(string(c.Args))
	}
	return n
}

func (r *reading) last() *pastTurn { return &r.turns[len(r.turns)-1] }

// end gives the turns, the entries of each in order. One that does not begin with its user has lost its beginning and
// is left out, unless it began without one: see [pastTurn.unaskedNote].
func (r *reading) end() []pastTurn {
	for i := range r.turns {
		slices.Reverse(r.turns[i].entries)
	}
	return slices.DeleteFunc(r.turns, func(p pastTurn) bool {
		return p.entries[0].Speaker != corebot.SpeakerUser && p.unaskedNote() == ""
	})
}
