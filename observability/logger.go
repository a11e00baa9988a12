package observability

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// NewLogger writes to out: for people when format is pretty, or auto and out is a terminal; else JSON, an event a line.
// Keys are the same words everywhere: chat, message_id, execution, tool, attempt. ("message" is zerolog's own, the text
// of the event.)
//
// No line has anything that a terminal obeys beside the colours: what comes from outside is escaped in it.
//
// What hide knows for a secret is in no line; nil hides nothing.
func NewLogger(out io.Writer, level, format string, hide *redact.Redactor) (zerolog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if format != "auto" && format != "json" && format != "pretty" {
		return zerolog.Nop(), fmt.Errorf("%w: log format %q: want auto, json or pretty", corebot.ErrInvalid, format)
	}
	pretty, colours := format == "pretty" || format == "auto" && isTerminal(out),
		isTerminal(out) && os.Getenv("NO_COLOR") == ""
	if hide != nil {
		out = hide.Writer(out)
	}
	if pretty { // it quotes texts in fields by itself, but neither lists nor the message
		out = zerolog.ConsoleWriter{
			Out: out, TimeFormat: time.TimeOnly, NoColor: !colours, FormatMessage: harmless,
			FormatFieldValue: func(v any) string { return redact.Escaped(fmt.Sprintf("%s", v)) },
		}
	} else {
		out = redact.EscapedWriter(out)
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger(), nil
}

// harmless is a message for people: what a terminal would obey in it stands there as a Go string's escape.
func harmless(message any) string {
	text, _ := message.(string)
	if redact.Visible(text) != text {
		text = strconv.QuoteToGraphic(text)
	}
	return text
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Level is a threshold that can be moved while a logger is in use: a hook that drops what is below it. The zero Level
// lets everything from debug on pass.
type Level struct{ least atomic.Int32 }

// Set moves the threshold: debug, info, warn or error.
func (l *Level) Set(name string) error {
	level, err := parseLevel(name)
	if err == nil {
		l.least.Store(int32(level))
	}
	return err
}

// Run implements zerolog.Hook.
func (l *Level) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if int32(level) < l.least.Load() {
		e.Discard()
	}
}

// Counter is a hook that counts the events of a log that tell of something wrong.
type Counter struct{ events *prometheus.CounterVec }

// NewCounter registers the counter.
func NewCounter(r prometheus.Registerer) (Counter, error) {
	c := Counter{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "corebot_log_events_total", Help: "Events of the log that tell of something wrong: warn, error.",
	}, []string{"level"})}
	for _, level := range []zerolog.Level{zerolog.WarnLevel, zerolog.ErrorLevel} {
		c.events.WithLabelValues(level.String())
	}
	if err := r.Register(c.events); err != nil {
		return c, fmt.Errorf("register the counter of the log: %w", err)
	}
	return c, nil
}

// Run implements zerolog.Hook.
func (c Counter) Run(_ *zerolog.Event, level zerolog.Level, _ string) {
	if level == zerolog.WarnLevel || level == zerolog.ErrorLevel {
		c.events.WithLabelValues(level.String()).Inc()
	}
}

func parseLevel(name string) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(name)
	if err != nil || level < zerolog.DebugLevel || level > zerolog.ErrorLevel {
		return zerolog.Disabled, fmt.Errorf("%w: log level %q: want debug, info, warn or error", corebot.ErrInvalid,
			name)
	}
	return level, nil
}

// NewRegistry is where every part of Corebot puts its metrics; the process and the Go runtime are in it from the start.
func NewRegistry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "corebot_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(collectors.WithGoCollectorMemStatsMetricsDisabled()),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
