package httpapi

import (
	"cmp"
	"context"
	"runtime/debug"
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
	if f == nil || k.over[run{e.key, e.id}] {
		return true
	}
	own := &frame{before: k.streamed[run{f.key, e.id}], began: sent.at}
	own.end(k.server, f.key, e.id, e.text, f.Seq())
	return k.finish(f, e.id, f.Seq(), own)
}

// finish tells that a run is over, and what was not streamed of its answer.
func (k *socket) finish(f *chatFeed, id string, seq int64, end *frame) bool {
	r := run{f.key, id}
	delete(k.streamed, r)
	delete(k.began, r)
	if len(k.over) >= rememberedEnds {
		clear(k.over)
	}
	k.over[r] = true
	return k.write(end) && (!f.subscribed || k.updated(f, seq))
}

// end is what a socket is told at the end of a run, of which it was streamed the text before.
func (f *frame) end(s *Server, key corebot.Key, id, text string, seq int64) {
	of := socketEvent{AgentID: key.Agent, SessionID: key.String(), MessageID: id, Seq: seq}
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

// toldOf tells what has happened in a chat, in one call of the kernel. room is for its bytes, and is given back.
func (k *socket) toldOf(key corebot.Key, room []byte) []byte {
	k.locked(func() bool {
		f := k.feeds[key]
		if f == nil || k.out.waits() {
			return true
		}
		k.out.gather(room)
		ok := k.events(f)
		if room = k.out.pour(); cap(room) > largeRoom {
			room = nil
		}
		return ok
	})
	return room
}

// largeRoom is room that is not kept for what comes next.
const largeRoom = 64 << 10

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
		return k.text(r, pieces, out)
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
	return k.pass(e.Seq, out)
}

// text tells pieces of a text. Sockets that were told the same before share all strings.
func (k *socket) text(r run, pieces []live.Numbered, out socketEvent) bool {
	f := k.server.frames.of(frameKey{out.SessionID, "text", pieces[0].Seq, out.Seq})
	f.make(func() {
		var b strings.Builder
		for _, p := range pieces {
			b.WriteString(p.Text)
		}
		f.text = b.String()
		f.before = k.streamed[r]
		f.after = f.before + f.text
		out.Type, out.Data = "text", &f.text
		f.add(k.server, out)
	})
	if before := k.streamed[r]; before == f.before {
		k.streamed[r] = f.after
	} else {
		k.streamed[r] = before + f.text
	}
	return k.write(f)
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
		return k.updated(f, e.Seq)
	}
	streamed, began := k.streamed[r], cmp.Or(k.began[r], e.At)
	text, unseen := streamed, false
	if f.key.Channel == corebot.APIChannel { // others are told only what was streamed, so a reset would lose more
		unseen = k.began[r].IsZero()
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
