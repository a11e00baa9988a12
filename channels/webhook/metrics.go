package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// statuses are those of the answers on each path. Their series exist at zero from the start, because a rate misses the
// first event of a series that begins at one.
var statuses = map[string][]int{
	pathPost: {
		http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusServiceUnavailable,
	},
	pathOutbound: reading,
	pathStream:   reading,
	pathResume: {
		http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusGone, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
	},
	pathGuest: {
		http.StatusOK, http.StatusAccepted, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout,
		http.StatusRequestEntityTooLarge, http.StatusMisdirectedRequest, http.StatusInternalServerError,
		http.StatusServiceUnavailable,
	},
	pathOther: {http.StatusForbidden, http.StatusNotFound, http.StatusMisdirectedRequest},
}

// reading are the statuses of the paths where callers fetch replies.
var reading = []int{
	http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
	http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
	http.StatusMisdirectedRequest, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusServiceUnavailable,
}

// Kinds of waits, as the gauge names them.
const (
	kindPoll   = "poll"
	kindStream = "stream"
	kindGuest  = "guest"
)

// metrics have bounded labels: the five paths and "other", the statuses that the webhook and its guest give, three
// kinds.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	waiting  *prometheus.GaugeVec
	refused  prometheus.Counter
}

func newMetrics(guest bool) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_webhook_requests_total", Help: "Requests by path and status. A stream counts when it ends.",
		}, []string{"path", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "corebot_webhook_request_duration_seconds",
			Help:    "Time to answer, the wait of a long poll included. Streams are not in it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 15, 60},
		}, []string{"path"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "corebot_webhook_waiting",
			Help: "Long polls and streams that are open now, and requests of the guest at /mcp.",
		}, []string{"kind"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_webhook_refused_connections_total", Help: "Connections over the cap, closed at once.",
		}),
	}
	for _, kind := range []string{kindPoll, kindStream, kindGuest} {
		m.waiting.WithLabelValues(kind)
	}
	for path, all := range statuses {
		if path == pathGuest && !guest {
			continue
		}
		m.duration.WithLabelValues(path)
		for _, status := range all {
			m.requests.WithLabelValues(path, strconv.Itoa(status))
		}
	}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.requests), r.Register(m.duration), r.Register(m.waiting), r.Register(m.refused))
}

func (m *metrics) count(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	if path != pathStream || status != http.StatusOK {
		m.duration.WithLabelValues(path).Observe(took.Seconds())
	}
}
