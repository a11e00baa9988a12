package agent

import (
	"cmp"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// heartbeat says whether the turn is a heartbeat's. Nobody has asked for such a turn, so nobody watches it. It posts
// only what somebody needs to know.
func (t *turn) heartbeat() bool {
	e := t.delivery.Message.Errand
	return e != nil && e.Heartbeat
}

// alone says whether the turn is a heartbeat that has merged no message: then no person waits for its answer.
func (t *turn) alone() bool { return t.heartbeat() && len(t.mergedIDs) == 0 }

// pulse is the result of a heartbeat. A calm one leaves no reply and no history. Any other leaves its answer in the
// history, for whoever asks about it. It leaves neither its prompt nor, after it has read untrusted text, its answer:
// a heartbeat never taints the chat.
func (t *turn) pulse(answer corebot.Answer) corebot.Result {
	r := corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		Model:   cmp.Or(answer.Model, t.modelName()), Spent: t.spent,
	}
	text := corebot.WithoutCalm(answer.Text)
	if blank(text) {
		return r
	}
	r.Replies = t.replies(text)
	if t.who.Taint == "" {
		t.said = nil
		t.say(corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, Parts: t.parts(text)})
		r.History = t.said
	}
	return r
}

// publish tells whoever watches the chat of what the turn does. Nobody watches a heartbeat.
func (t *turn) publish(e live.Event) {
	if !t.heartbeat() {
		t.opts.Live.Publish(e)
	}
}

// ofHeartbeat says what a heartbeat is, in one line.
func ofHeartbeat(e *corebot.Errand) string {
	return fmt.Sprintf("this message is a heartbeat of yours, due at %s: nobody has written it now. Look after what "+
		"it lists. If nobody needs to be told anything, answer with %s alone; the chat reads any other answer\n",
		e.Due.Format(time.RFC1123Z), corebot.Calm)
}
