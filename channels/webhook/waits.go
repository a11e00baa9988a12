package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Why a wait ended, when its caller did not end it.
var (
	errRevoked  = errors.New("the credential has been replaced")
	errStopping = errors.New("the webhook stops")
)

// waits are the long polls and streams that are open, so many and no more.
type waits struct {
	max   int
	gauge *prometheus.GaugeVec

	mu   sync.Mutex
	open map[*wait]struct{}
}

// wait is one of them.
type wait struct {
	who proof
	end context.CancelCauseFunc
}

// wait opens a long poll or stream. Its context ends with the request, when the webhook stops, and when the credential it came with is
// replaced. end closes it.
func (h *handler) wait(r *http.Request, who proof, kind string) (ctx context.Context, end func(), p *problem) {
	ctx, cancel := context.WithCancelCause(r.Context())
	entry := &wait{who: who, end: cancel}
	if !h.waits.add(entry) {
		cancel(nil)
		return nil, nil, later(http.StatusServiceUnavailable, 5*time.Second, "too many long polls and streams are open")
	}
	unlink := context.AfterFunc(h.stopping, func() { cancel(errStopping) })
	open := h.waits.gauge.WithLabelValues(kind)
	open.Inc()
	end = func() {
		open.Dec()
		unlink()
		h.waits.remove(entry)
		cancel(nil)
	}
	// Looked at after add: credentials that are replaced before this line are seen here, later ones find the entry.
	if p := h.stillGood(who); p != nil {
		end()
		return nil, nil, p
	}
	return ctx, end, nil
}

func (ws *waits) add(w *wait) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.open) >= ws.max {
		return false
	}
	if ws.open == nil {
		ws.open = make(map[*wait]struct{})
	}
	ws.open[w] = struct{}{}
	return true
}

func (ws *waits) remove(w *wait) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.open, w)
}

// revoke ends every wait whose credential is not among c.
func (ws *waits) revoke(c *credentials) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.open {
		if !c.hold(w.who) {
			w.end(errRevoked)
		}
	}
}
