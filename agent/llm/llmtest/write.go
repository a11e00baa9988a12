package llmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const defaultArgsPiece = 8 // bytes; small enough that arguments of any size arrive in several pieces

func (a Answer) write(w http.ResponseWriter, r *http.Request, req Request) {
	if !pause(r, a.delay) || a.cutHere(w, r, req, -1) {
		return
	}
	for k, v := range a.header {
		w.Header().Set(k, v)
	}
	switch {
	case a.status != 0:
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
		a.flood.write(w)
	case req.Stream:
		a.stream(w, r, req)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.completion(req))
	}
}

// stream sends the events one by one, each flushed, so that what the client has seen when the stream is cut is certain.
func (a Answer) stream(w http.ResponseWriter, r *http.Request, req Request) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	_ = out.Flush()
	if a.flood.piece != "" {
		a.flood.write(w)
		return
	}
	for i, event := range a.wireEvents(req) {
		if a.cutHere(w, r, req, i) || !pause(r, a.pace) {
			return
		}
		_, err := fmt.Fprint(w, strings.Repeat(": keep-alive\n\n", a.keepAlive), event, "\n\n")
		if err != nil || out.Flush() != nil {
			return
		}
	}
}

// write ends early if the client goes away.
func (f flood) write(w io.Writer) {
	for sent := int64(0); sent < f.bytes; sent += int64(len(f.piece)) {
		if _, err := io.WriteString(w, f.piece); err != nil {
			return
		}
	}
}

// cutHere ends the answer if this is where it is cut, and says whether it did.
func (a Answer) cutHere(w http.ResponseWriter, r *http.Request, req Request, sent int) bool {
	if a.cut == whole || a.cutAfter != sent {
		return false
	}
	if a.last != nil {
		_, _ = io.WriteString(w, a.last(req))
		_ = http.NewResponseController(w).Flush()
	}
	switch a.cut {
	case stalled:
		<-r.Context().Done()
	case broken:
		panic(http.ErrAbortHandler) // how net/http is told to cut a connection
	case reset:
		sendReset(w)
	}
	return true
}

// sendReset closes the connection without a farewell: what TCP does with linger off is a RST.
func sendReset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// pause is false if the client went away.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

type object = map[string]any

// wireEvents are the events of the stream as they are sent.
func (a Answer) wireEvents(req Request) []string {
	if req.API == Anthropic {
		return a.messageEvents(req)
	}
	var lines []string
	for _, data := range append(a.chunks(req), "[DONE]") {
		lines = append(lines, "data: "+data)
	}
	return lines
}

// chunks are the events of a chat completion.
func (a Answer) chunks(req Request) []string {
	if a.events != nil {
		return a.events
	}
	var events []string
	delta := func(d object, finish any) {
		events = append(events, chunk(req, []object{{"index": 0, "delta": d, "finish_reason": finish}}, nil))
	}
	if a.think != "" {
		for _, p := range pieces(a.think, a.piece) {
			delta(object{"reasoning_content": p}, nil)
		}
	}
	for _, p := range pieces(a.text, a.piece) {
		delta(object{"content": p}, nil)
	}
	for i, c := range a.namedCalls() {
		delta(object{"tool_calls": []object{{
			"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""},
		}}}, nil)
		for _, p := range bytePieces(c.Args, a.argsPiece()) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	delta(object{}, a.finish)
	if !a.bare && req.StreamOptions != nil && req.StreamOptions.IncludeUsage {
		events = append(events, chunk(req, []object{}, a.usageJSON()))
	}
	return events
}

func (a Answer) completion(req Request) object {
	message := object{"role": "assistant", "content": a.text}
	var calls []object
	for _, c := range a.namedCalls() {
		calls = append(calls, object{
			"id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": c.Args},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	answer := object{
		"id": completionID(req), "object": "chat.completion", "created": 1, "model": req.Model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": a.finish}},
	}
	if !a.bare {
		answer["usage"] = a.usageJSON()
	}
	return answer
}

func chunk(req Request, choices []object, usage any) string {
	b, err := json.Marshal(object{
		"id": completionID(req), "object": "chat.completion.chunk", "created": 1, "model": req.Model,
		"choices": choices, "usage": usage,
	})
	if err != nil {
		panic(err) // strings, numbers and maps of them always marshal
	}
	return string(b)
}

func completionID(req Request) string { return fmt.Sprintf("chatcmpl-%d", req.N) }

func (a Answer) usageJSON() object {
	out := object{
		"prompt_tokens": a.usage.Input, "completion_tokens": a.usage.Output,
		"total_tokens": a.usage.Input + a.usage.Output,
	}
	if a.usage.Cached > 0 {
		out["prompt_tokens_details"] = object{"cached_tokens": a.usage.Cached}
	}
	return out
}

func (a Answer) namedCalls() []Call {
	calls := append([]Call(nil), a.calls...)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("call_%d", i+1)
		}
	}
	return calls
}

// pieces are words, or n bytes each. No text is one empty piece, as many servers send it.
func pieces(text string, n int) []string {
	if n > 0 {
		return bytePieces(text, n)
	}
	return strings.SplitAfter(text, " ")
}

func (a Answer) argsPiece() int {
	if a.piece > 0 {
		return a.piece
	}
	return defaultArgsPiece
}

// bytePieces never cuts a character in two, since JSON could not carry the halves.
func bytePieces(s string, n int) []string {
	var pieces []string
	start := 0
	for i := range s {
		if i-start >= n {
			pieces, start = append(pieces, s[start:i]), i
		}
	}
	return append(pieces, s[start:])
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(errorJSON(status, message)))
}
