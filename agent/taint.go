package agent

import "github.com/corebot/corebot"

// A turn is tainted once it has read text that others than the operator and its principal may have written. Such text
// may have told the model what to do. The turn stays tainted to its end, whoever the principal is. The journal and the
// history record the taint, so that a resumed turn is tainted at the same place. A turn reads:
//
//   - the message of an MCP client, because a client passes on text of a model or a page;
//   - the message of another agent that wrote it in a tainted turn, and the prompt of a child turn likewise;
//   - the descriptions and schemas of the tools that it is offered, of MCP servers, unless the operator stands for
//     them: see [llm.Tool];
//   - the results of tools that say so: pages, searches, MCP servers, files of the workspace that others than admins
//     may write, the chat's history and memory. Text that the turn's principal wrote in untainted turns does not count;
//   - what other people say to it while it runs, or had said in its session, and what its principal forwards of them;
//   - from its session: earlier results of such tools, answers of tainted turns, messages from elsewhere, and a summary
//     that is made of any of these: see [corebot.Sources];
//   - replies that could not be delivered, when they stand in its prompt.
//
// The chat's memory taints no prompt: of text that others can have written an untainted turn is shown the amount alone.
// A new session, as after /new, has read nothing.

// taint notes what the turn has read; the first is what people are told.
func (t *turn) taint(source string) {
	if t.who.Taint == "" {
		t.who.Taint = source
	}
}

const forwarded = "a forwarded message"

// taintBySender looks at who published the message.
func (t *turn) taintBySender() {
	m := t.delivery.Message
	source := t.opts.Untrusted[t.who.Principal.Channel]
	switch {
	case source != "":
		t.taint(source)
		t.who.Overheard = true
	case m.Relay != nil:
		t.who.Overheard = true
	case m.Detached != nil: // so is its text: it is Corebot's own, and its taint is that of its answer
		t.who.Overheard = t.who.Overheard || m.Envelope.Group
	case m.Child != nil: // its taint is its parent's, and its prompt is no person's words
	case m.Errand != nil && m.Errand.Taint != "": // others can have had a hand in the prompt
		t.who.Overheard = true
	case m.Envelope.Forwarded:
		t.taint(forwarded)
		t.who.Overheard = t.who.Overheard || m.Envelope.Group
	case m.Envelope.Group, m.Errand != nil && m.Errand.Overheard:
		t.who.Overheard = true
		t.addresses.Say(m.Text())
	case m.Entry.Kind == "" || m.Entry.Kind == corebot.EntryDirect:
		t.addresses.Say(m.Text())
	}
}

// taintByTools looks at what the turn is offered. Such a tool may be approved, changed or gone when the turn is
// resumed: each answer that is journaled says what had tainted it.
func (t *turn) taintByTools() {
	for _, tool := range t.offered {
		if tool.Unapproved {
			t.taint("the description of " + tool.Name + ", which nobody approved")
			return
		}
	}
}

// taintByPast looks at the session before the turn.
func (t *turn) taintByPast() {
	if s := t.past.summary; s.Through > 0 {
		if !s.OnlyOf(t.who.Principal) {
			t.taint("a summary of what other people said before")
			t.who.Overheard = true
		}
		if s.Outside {
			t.taint("a summary of what was said before")
		}
	}
	if t.past.more { // the model is not shown it, but somebody else may have spoken
		t.who.Overheard = true
	}
	for _, earlier := range t.past.turns {
		for _, e := range earlier.entries {
			if source := t.foreign(e); source != "" {
				t.taint(source)
			}
			t.hear(e)
		}
	}
}

// hear notes who has spoken in the session, and the addresses in the principal's own words.
func (t *turn) hear(e corebot.HistoryEntry) {
	switch own := e.Sender == t.who.Principal && e.Sender.ID != ""; {
	case e.Speaker != corebot.SpeakerUser && e.Sender == (corebot.Principal{}):
	case !own:
		t.who.Overheard = true
	case !e.Outside && e.Speaker == corebot.SpeakerUser:
		t.addresses.Say(e.Text())
	}
}

// foreign says what is from outside in an entry of the history; empty: nothing.
func (t *turn) foreign(e corebot.HistoryEntry) string {
	switch {
	case e.Posted():
		return "what was sent here from another chat"
	case e.Speaker == corebot.SpeakerAssistant && e.Sender.ID != "" && e.Sender != t.who.Principal:
		return "the result of a job for somebody else"
	case e.Speaker == corebot.SpeakerUser && (e.Sender != t.who.Principal || e.Sender.ID == ""):
		return "what other people said before"
	case e.Speaker == corebot.SpeakerUser && e.Outside:
		return "what was forwarded before, or sent by another agent that had read such text"
	case e.Speaker == corebot.SpeakerTool && e.Outside:
		return "the result of a tool in an earlier turn"
	case e.Speaker == corebot.SpeakerAssistant && e.Outside:
		return "an answer of an earlier turn that had read such text"
	}
	return ""
}
