package httpapi

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// send publishes a message, and tells the client of its run until the message has ended.
func (k *socket) send(q socketRequest) bool {
	key, err := k.server.chat(q.AgentID, q.SessionKey)
	if err == nil && q.SessionID != "" {
		if key, err = corebot.ParseKey(q.SessionID); err == nil && (key.Channel != corebot.APIChannel ||
			key.Account != "" || key.Thread != "" || key.Agent != q.AgentID) {
			err = malformed("leave sessionId out", "sessionId is no chat of the API and this agent")
		}
	}
	switch {
	case err != nil:
	case !k.token.MaySend(key.Chat):
		err = mayNotSend(k.token, key.Chat)
	case q.Message == "":
		err = malformed("say something", "message is missing or empty")
	case len(k.pending) >= maxPending:
		err = malformed("wait for the ends of some", "%d messages of this socket have not ended", maxPending)
	}
	if err != nil {
		return k.refuse(q, err)
	}
	o := outgoing{call: k.call, key: key, id: cmp.Or(q.ID, randomID()), parts: corebot.TextPart(q.Message)}
	if _, under := k.pending[o.id]; under {
		return k.refuse(q, malformed("wait for its end, or give it another id",
			"a message with this id is under way on this socket"))
	}
	if _, _, err = k.follow(key, 0); err != nil {
		return k.refuse(q, err)
	}
	k.pending[o.id] = underWay{key, time.Now()}
	go o.sendTo(k)
	return true
}

// sendTo publishes a message for a socket, and waits for its end.
func (o outgoing) sendTo(k *socket) {
	end := socketEnd{id: o.id, key: o.key}
	o.wait = 24 * time.Hour // or until the socket ends
	out, err := o.untilEnded(k.ctx, sent{})
	end.err = err
	texts := make([]string, len(out.Messages))
	for i, m := range out.Messages {
		texts[i] = m.Content
	}
	end.text = strings.Join(texts, "\n")
	select {
	case k.ends <- end:
	case <-k.ctx.Done():
	}
}

// ended tells the end of a message that the socket has sent.
func (k *socket) ended(e socketEnd) bool {
	sent := k.pending[e.id]
	delete(k.pending, e.id)
	defer k.prune()
	f := k.feeds[e.key]
	if e.err != nil {
		return k.refuse(socketRequest{AgentID: e.key.Agent, ID: e.id}, e.err)
	}
	if f == nil || k.over[run{e.key, e.id}] {
		return true
	}
	return k.finish(f, e.id, e.text, sent.at)
}

// finish tells what was not streamed of an answer, and that the run is over.
func (k *socket) finish(f *chatFeed, id, text string, began time.Time) bool {
	r := run{f.key, id}
	streamed := k.streamed[r]
	delete(k.streamed, r)
	delete(k.began, r)
	if len(k.over) >= rememberedEnds {
		clear(k.over)
	}
	k.over[r] = true
	of := socketEvent{AgentID: f.key.Agent, SessionID: f.key.String(), MessageID: id, Seq: f.Seq()}
	rest, streams := strings.CutPrefix(text, streamed)
	if !streams && streamed != "" {
		reset := of
		reset.Type = "reset"
		if rest = text; text != "" && !k.tell(reset) {
			return false
		}
	}
	if rest != "" {
		told := of
		told.Type, told.Data = "text", &rest
		if !k.tell(told) {
			return false
		}
	}
	of.Type, of.Meta = "done", &doneMeta{max(0, time.Since(began).Milliseconds())}
	return k.tell(of) && (!f.subscribed || k.updated(f))
}

// prune stops to follow the chats that are not subscribed and in which nothing of the socket is under way.
func (k *socket) prune() {
	wanted := map[corebot.Key]bool{}
	for _, p := range k.pending {
		wanted[p.key] = true
	}
	for key, f := range k.feeds {
		if !f.subscribed && !wanted[key] {
			f.Stop()
			delete(k.feeds, key)
		}
	}
}

// own says whether the socket has sent a message that has not ended.
func (k *socket) own(key corebot.Key, id string) bool {
	p, under := k.pending[id]
	return under && p.key == key
}

// events tells what has happened in the chats.
func (k *socket) events() bool {
	for _, f := range k.feeds {
		events, gap := f.Next()
		if gap && !k.updated(f) {
			return false
		}
		for i := 0; i < len(events); i++ {
			e, first := events[i], events[i].Seq
			for e.Kind == live.Text && i+1 < len(events) && events[i+1].Kind == live.Text &&
				events[i+1].MessageID == e.MessageID { // many small pieces are one message
				i++
				e.Text, e.Seq = e.Text+events[i].Text, events[i].Seq
			}
			if (f.subscribed || k.own(f.key, e.MessageID)) && !k.event(f, e, first) {
				return false
			}
		}
	}
	return true
}

// event tells one event, which can stand for several from the first on.
func (k *socket) event(f *chatFeed, e live.Numbered, first int64) bool {
	out := socketEvent{Seq: e.Seq, AgentID: f.key.Agent, SessionID: f.key.String(), MessageID: e.MessageID}
	r := run{f.key, e.MessageID}
	switch e.Kind {
	case live.TurnStarted:
		if len(k.began) >= rememberedEnds {
			clear(k.began)
			clear(k.streamed)
		}
		k.began[r] = e.At
		delete(k.over, r)
		return true
	case live.Text:
		k.streamed[r] += e.Text
		out.Type, out.Data = "text", &e.Text
	case live.TextReset:
		if k.streamed[r] == "" {
			return true
		}
		delete(k.streamed, r)
		out.Type = "reset"
	case live.ToolStarted:
		out.Type, out.ToolName = "tool_start", e.Tool
	case live.ToolEnded:
		out.Type, out.ToolName = "tool_end", e.Tool
		out.IsError = e.Text != string(corebot.OutcomeSuccess) && e.Text != live.Waiting
	case live.TurnEnded:
		return k.turnEnded(f, e)
	default:
		return true
	}
	return k.pass(first, out)
}

// turnEnded tells the end of a run, unless the message goes on later. The end of a message that the socket has sent is
// told when all its answers are known.
func (k *socket) turnEnded(f *chatFeed, e live.Numbered) bool {
	r := run{f.key, e.MessageID}
	if k.own(r.key, r.id) || k.over[r] {
		return true
	}
	switch e.Text {
	case "retrying", "parked", live.Waiting:
		return k.updated(f)
	}
	text := k.streamed[r]
	if f.key.Channel == corebot.APIChannel {
		whole, err := k.wholeAnswer(f.key, e)
		if err != nil {
			return k.refuse(socketRequest{AgentID: f.key.Agent, ID: e.MessageID}, err)
		}
		text = whole
	}
	return k.finish(f, e.MessageID, text, cmp.Or(k.began[r], e.At))
}

// answerTime bounds the look for an answer that a socket makes for all sockets of its chat.
const answerTime = 10 * time.Second

// wholeAnswer is all that was said in answer to a message whose run has ended. One socket of those that follow the chat
// reads it from the database.
func (k *socket) wholeAnswer(key corebot.Key, e live.Numbered) (string, error) {
	f := k.server.frames.of(frameKey{key.String(), "answer to " + e.MessageID, e.Seq, e.Seq})
	f.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), answerTime)
		defer cancel()
		var found []corebot.Posted
		if found, f.err = k.server.opts.Talk.Answers(ctx, key, e.MessageID, 0, maxAnswers); f.err != nil {
			return
		}
		texts := make([]string, len(found))
		for i, p := range found {
			texts[i] = p.Text()
		}
		f.text = strings.Join(texts, "\n")
	})
	return f.text, f.err
}
