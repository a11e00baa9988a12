package httpapi

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
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
	f, _, err := k.follow(key, 0)
	if err != nil {
		return k.refuse(q, err)
	}
	if f.isOpen(o.id) { // a replay, of which the client is told again
		f.forget(o.id)
	}
	k.pending[o.id] = underWay{key, time.Now()}
	go o.sendTo(k)
	return true
}

// sendTo publishes a message for a socket, and waits for its end.
func (o outgoing) sendTo(k *socket) {
	end := socketEnd{id: o.id, key: o.key}
	o.wait = 24 * time.Hour // or until the socket ends
	out, err := o.contained(k.ctx)
	end.err = err
	texts := make([]string, len(out.Messages))
	for i, m := range out.Messages {
		texts[i] = m.Content
	}
	end.text = strings.Join(texts, "\n")
	k.locked(func() bool {
		k.ends = append(k.ends, end)
		return k.catchUp()
	})
}

// contained is untilEnded, of which a panic is an error.
func (o outgoing) contained(ctx context.Context) (out sent, err error) {
	defer func() {
		if p := recover(); p != nil {
			o.server.opts.Log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).
				Str("message", o.id).Msg("the wait for an answer panicked")
			err = errFailed
		}
	}()
	return o.untilEnded(ctx, sent{})
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
	if f == nil || slices.Contains(f.over, e.id) {
		return true
	}
	if f.isOpen(e.id) {
		f.early++
	}
	own := &frame{before: f.run(e.id).streamed, began: sent.at}
	own.end(k.server, f.key, e.id, e.text, f.Seq())
	return k.finish(f, e.id, f.Seq(), own)
}

// finish tells that a run is over, and what was not streamed of its answer.
func (k *socket) finish(f *chatFeed, id string, seq int64, end *frame) bool {
	f.ended(id)
	return k.write(end) && (!f.subscribed || k.updated(f, seq))
}

// end is what a socket is told at the end of a run, of which it was streamed the text before. That had no secrets.
func (f *frame) end(s *Server, key corebot.Key, id, text string, seq int64) {
	of := socketEvent{AgentID: key.Agent, SessionID: key.String(), MessageID: id, Seq: seq}
	text = s.opts.Redact(text)
	rest, streams := strings.CutPrefix(text, f.before)
	if !streams && f.before != "" || f.unseen {
		if rest = text; text != "" {
			reset := of
			reset.Type = "reset"
			f.add(s, reset)
		}
	}
	if rest != "" {
		told := of
		told.Type, told.Data = "text", &rest
		f.add(s, told)
	}
	of.Type, of.Meta = "done", &doneMeta{max(0, time.Since(f.began).Milliseconds())}
	f.add(s, of)
}

// prune stops to follow the chats that are not subscribed and in which nothing of the socket is under way.
func (k *socket) prune() {
	wanted := map[corebot.Key]bool{}
	for _, p := range k.pending {
		wanted[p.key] = true
	}
	for key, f := range k.feeds {
		if !f.subscribed && !wanted[key] {
			k.unfollow(f)
		}
	}
}

// own says whether the socket has sent a message that has not ended.
func (k *socket) own(key corebot.Key, id string) bool {
	p, under := k.pending[id]
	return under && p.key == key
}

// catchUp tells what has happened in all chats, and then the ends of messages: the text of a message comes before its
// end. A client that has not taken what it was told before keeps its places, and is told later.
func (k *socket) catchUp() bool {
	if k.out.waits() {
		return true
	}
	for _, f := range k.feeds {
		if !k.events(f) {
			return false
		}
	}
	ends := k.ends
	k.ends = nil
	for _, e := range ends {
		if !k.ended(e) {
			return false
		}
	}
	return true
}

// events tells what has happened in a chat.
func (k *socket) events(f *chatFeed) bool {
	events, gap := f.Next()
	if gap {
		f.lost(events[0].Seq)
	}
	if gap && !k.updated(f, events[0].Seq-1) {
		return false
	}
	for len(events) > 0 {
		n := 1 // many small pieces are one message
		for e := events[0]; e.Kind == live.Text && n < len(events) && events[n].Kind == live.Text &&
			events[n].MessageID == e.MessageID; {
			n++
		}
		if (f.subscribed || k.own(f.key, events[0].MessageID)) && !k.event(f, events[:n]) {
			return false
		}
		events = events[n:]
	}
	return true
}

// event tells one event, or pieces of a text as one.
func (k *socket) event(f *chatFeed, pieces []live.Numbered) bool {
	e, last := pieces[0], pieces[len(pieces)-1]
	out := socketEvent{Seq: last.Seq, AgentID: f.key.Agent, SessionID: f.key.String(), MessageID: e.MessageID}
	r := f.run(e.MessageID)
	switch e.Kind {
	case live.TurnStarted:
		r.began = e.At
		f.set(r)
		f.forget(r.id)
		return true
	case live.Text:
		return k.text(f, r, pieces, out)
	case live.TextReset:
		if r.streamed == "" {
			return true
		}
		r.streamed = ""
		f.set(r)
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
	return k.pass(e.Seq, out)
}

// text tells pieces of a text. Sockets that were told the same before share all strings.
func (k *socket) text(c *chatFeed, r openRun, pieces []live.Numbered, out socketEvent) bool {
	f := k.server.frames.of(frameKey{out.SessionID, "text", pieces[0].Seq, out.Seq})
	f.make(func() {
		var b strings.Builder
		for _, p := range pieces {
			b.WriteString(p.Text)
		}
		f.text = b.String()
		f.before = r.streamed
		f.after = f.before + f.text
		out.Type, out.Data = "text", &f.text
		f.add(k.server, out)
	})
	if r.streamed == f.before {
		r.streamed = f.after
	} else {
		r.streamed += f.text
	}
	c.set(r)
	return k.write(f)
}

// turnEnded tells the end of a run, unless the message goes on later. The end of a message that the socket has sent is
// told when all its answers are known.
func (k *socket) turnEnded(f *chatFeed, e live.Numbered) bool {
	if k.own(f.key, e.MessageID) {
		return true
	}
	if slices.Contains(f.over, e.MessageID) {
		f.early = max(0, f.early-1)
		return true
	}
	switch e.Text {
	case "retrying", "parked", live.Waiting:
		return k.updated(f, e.Seq)
	}
	r := f.run(e.MessageID)
	streamed, began := r.streamed, cmp.Or(r.began, e.At)
	text, unseen := streamed, false
	if f.key.Channel == corebot.APIChannel { // others are told only what was streamed, so a reset would lose more
		unseen = r.began.IsZero()
		whole, err := k.wholeAnswer(f.key, e)
		if err != nil { // the history has it, and the client is told to read that
			k.server.opts.Log.Warn().Err(err).Str("message", e.MessageID).Msg("sockets are not told the answer")
			whole, unseen = streamed, false
		}
		text = whole
	}
	end := k.server.frames.of(frameKey{f.key.String(), "end of " + e.MessageID, e.Seq, e.Seq})
	end.make(func() {
		end.before, end.began, end.unseen = streamed, began, unseen
		end.end(k.server, f.key, e.MessageID, text, e.Seq)
	})
	if end.before != streamed || !end.began.Equal(began) || end.unseen != unseen { // this socket has seen less or more
		end = &frame{before: streamed, began: began, unseen: unseen}
		end.end(k.server, f.key, e.MessageID, text, e.Seq)
	}
	return k.finish(f, e.MessageID, e.Seq, end)
}

// answerTime bounds the look for an answer that a socket makes for all sockets of its chat. Those of every other chat
// wait meanwhile.
const answerTime = 500 * time.Millisecond

// wholeAnswer is all that was said in answer to a message whose run has ended. One socket of those that follow the chat
// reads it from the database.
func (k *socket) wholeAnswer(key corebot.Key, e live.Numbered) (string, error) {
	f := k.server.frames.of(frameKey{key.String(), "answer to " + e.MessageID, e.Seq, e.Seq})
	f.make(func() {
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
	if f.failed {
		return "", errFailed
	}
	return f.text, f.err
}
