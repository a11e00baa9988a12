package webhook

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

// Guest answers at a path of its own, behind the webhook's authentication, page check and limits. It gets requests
// whose bodies are whole and within the cap. The context of a request ends with the caller, when the webhook stops, and
// when the credential is replaced that the request came with.
type Guest interface {
	http.Handler
	// EndSessions is called when credentials were replaced: whatever the guest remembers of callers goes.
	EndSessions()
}

// guest lets the guest answer one request. Each counts among those that may wait.
func (h *handler) guest(w http.ResponseWriter, r *http.Request) int {
	body, who, hangUp, p := h.guestBody(w, r)
	if p != nil {
		return p.write(w, hangUp)
	}
	ctx, end, p := h.wait(r, who, kindGuest)
	if p != nil {
		return p.write(w, false)
	}
	defer end()
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	out := &pieces{ResponseWriter: w, ctx: ctx}
	hurry := func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(hurryTime)) }
	stop := context.AfterFunc(ctx, hurry)
	h.opts.Guest.ServeHTTP(out, r)
	stop()
	if out.status == 0 && ctx.Err() != nil { // it had nothing more to say
		if p = h.stillGood(who); p == nil {
			p = later(http.StatusServiceUnavailable, 5*time.Second, "Corebot is stopping")
		}
		return p.write(w, false)
	}
	hurry()
	return cmp.Or(out.status, http.StatusOK)
}

// guestBody authenticates a request and reads its body, which is the caller's to keep. With a problem, hangUp says that
// the body was not read to its end.
func (h *handler) guestBody(w http.ResponseWriter, r *http.Request) (body []byte, who proof, hangUp bool, p *problem) {
	b := h.newBody(w, r)
	defer h.release(b)
	if who, p = h.authenticate(r.Header, b.bytes); p == nil {
		_, p = b.bytes()
	}
	if p != nil {
		return nil, who, !b.whole && hasBody(r), p
	}
	return bytes.Clone(b.buf.Bytes()), who, false, nil
}

// pieces gives every piece of an answer its deadline: a caller that does not read is cut off, and a slow answer is not.
type pieces struct {
	http.ResponseWriter
	ctx    context.Context
	status int // 0: nothing was written
}

// WriteHeader implements [http.ResponseWriter].
func (p *pieces) WriteHeader(status int) {
	p.status = status
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *pieces) Write(b []byte) (int, error) {
	p.status = cmp.Or(p.status, http.StatusOK)
	if err := writePieces(p.ctx, p.ResponseWriter, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush implements [http.Flusher]. A writer that cannot flush cannot write either.
func (p *pieces) Flush() { _ = http.NewResponseController(p.ResponseWriter).Flush() }

// pageBytes is how much content a page has, about; it has at least one reply, however long it is.
const pageBytes = 4 << 20

// message is a reply as callers see it.
type message struct {
	ID        string `json:"id"`
	InReplyTo string `json:"inReplyTo"`
	Content   string `json:"content"`
	CreatedAt string `json:"createdAt"`
	Cursor    string `json:"cursor"`
	beside
}

// beside is what a reply has beside its text. A usual reply has none of it.
type beside struct {
	Files    []sentFile              `json:"files,omitempty"`
	Notice   corebot.NoticeKind      `json:"notice,omitempty"`   // what a notice is about
	Approval *corebot.ApprovalNotice `json:"approval,omitempty"` // the request that waits for an approval
	Wait     *corebot.WaitNotice     `json:"wait,omitempty"`     // what the answer waits for
	Actions  []corebot.Action        `json:"actions,omitempty"`  // what a reader can do: post an action's command
}

func besideText(files []sentFile, notice *corebot.Notice) beside {
	b := beside{Files: files}
	if notice != nil {
		b.Notice, b.Approval, b.Wait, b.Actions = notice.Kind, notice.Approval, notice.Wait, notice.Actions
	}
	return b
}

func (w *Webhook) messageOf(ctx context.Context, k corebot.Key, p corebot.Posted) message {
	return message{
		ID: p.ID, InReplyTo: p.InReplyTo, Content: p.Text(), CreatedAt: timestamp(p.CreatedAt),
		Cursor: cursorText(p.Cursor), beside: besideText(w.filesOf(ctx, k, p.Parts), p.Notice),
	}
}

// timestamp is RFC 3339 in UTC with milliseconds, as everywhere in the interface.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func cursorText(n int64) string { return strconv.FormatInt(n, 10) }

// page reads the replies behind a cursor, at most limit of them and about pageBytes.
func (w *Webhook) page(ctx context.Context, k corebot.Key, after int64, limit int) ([]corebot.Posted, error) {
	return w.replies.Page(ctx, k, after, limit, pageBytes)
}
