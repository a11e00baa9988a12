package webhook

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// statuses are those of the answers on each path, as metrics name them: exactly where messages come in, and by class
// elsewhere. Their series exist at zero from the start, because a rate misses the first event of a series that begins
// at one.
var statuses = map[string][]string{
	pathPost: {
		"202", "400", "401", "403", "405", "408", "409", "413", "415", "421", "422", "429", "500", "503",
	},
	pathOutbound: classes, pathStream: classes, pathResume: classes, pathGuest: classes,
	pathOther: {class4},
}

const class4 = "4xx"

// classes are all that a path has whose statuses are not told apart. A wrong token is told apart everywhere.
var classes = []string{"2xx", "401", class4, "5xx"}

// statusLabel is how the metrics name a status.
func statusLabel(path string, status int) string {
	if path == pathPost || path != pathOther && status == http.StatusUnauthorized {
		return strconv.Itoa(status)
	}
	return strconv.Itoa(status/100) + "xx"
}

// Kinds of waits, as the gauge names them.
const (
	kindPoll   = "poll"
	kindStream = "stream"
	kindGuest  = "guest"
)

// metrics have bounded labels: the five paths and "other", their statuses, three kinds.
type metrics struct {
	requests *prometheus.CounterVec
	accepted prometheus.Histogram
	waiting  *prometheus.GaugeVec
	refused  prometheus.Counter
}

func newMetrics(guest bool) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_webhook_requests_total", Help: "Requests by path and status: on /webhook by the exact " +
				"one, elsewhere by class. A stream counts when it ends.",
		}, []string{"path", "status"}),
		accepted: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "corebot_webhook_post_seconds",
			Help:    "Time to answer a posted message, its fsync included.",
			Buckets: []float64{.0025, .01, .025, .1, .25, 1, 5, 30},
		}),
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
		for _, status := range all {
			m.requests.WithLabelValues(path, status)
		}
	}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.requests), r.Register(m.accepted), r.Register(m.waiting), r.Register(m.refused))
}

func (m *metrics) count(path string, status int) {
	m.requests.WithLabelValues(path, statusLabel(path, status)).Inc()
}
