package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/corebot/corebot"
)

// outboundPage is the answer to a poll.
type outboundPage struct {
	ChatID   string    `json:"chatId"`
	Messages []message `json:"messages"`
	Cursor   string    `json:"cursor"` // where to go on: behind the last message, or where the caller was
}

func (h *handler) outbound(w http.ResponseWriter, r *http.Request) int {
	q, who, p := h.ask(r, "chatId", "after", "limit", "wait")
	if p != nil {
		return p.write(w, hasBody(r))
	}
	wake, stop := h.replies.Watch(q.key) // before the read: what comes before the read is read, what comes after it wakes
	defer stop()
	replies, err := h.page(r.Context(), q.key, q.after, q.limit)
	if err == nil && len(replies) == 0 && q.wait > 0 {
		replies, p, err = h.poll(r, who, q, wake)
	}
	if err != nil {
		p = h.refusalOf(err)
	}
	if p != nil {
		return p.write(w, false)
	}
	page := outboundPage{ChatID: q.key.Chat, Messages: make([]message, len(replies)), Cursor: q.cursor}
	if page.Cursor == "" {
		page.Cursor = cursorText(q.after)
	}
	for i, reply := range replies {
		page.Messages[i] = messageOf(reply)
		page.Cursor = page.Messages[i].Cursor
	}
	return answer(w, http.StatusOK, "application/json", page)
}

// poll waits for replies where there are none. It also ends, with none, when the time is up, when the caller has gone, and when Corebot
// stops: in each case the caller asks again from where it is.
func (h *handler) poll(r *http.Request, who proof, q query, wake <-chan struct{}) ([]corebot.Posted, *problem, error) {
	ctx, end, p := h.wait(r, who, kindPoll)
	if p != nil {
		return nil, p, nil
	}
	defer end()
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	for {
		select {
		case <-wake:
			replies, err := h.page(context.WithoutCancel(ctx), q.key, q.after, q.limit)
			if err != nil || len(replies) > 0 {
				return replies, h.stillGood(who), err
			}
		case <-timer.C:
			return nil, nil, nil
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errRevoked) {
				return nil, h.stillGood(who), nil
			}
			return nil, nil, nil
		}
	}
}
