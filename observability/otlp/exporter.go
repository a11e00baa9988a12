// Package otlp sends spans to a collector, by OTLP over HTTP with protobuf, as the standard variables of OpenTelemetry
// say.
//
// Nobody who ends a span waits. Spans wait in a queue of bounded length. When the queue is full, and when a collector
// does not take a batch, spans are lost and counted. A collector that is down costs a line in the log, when it
// fails first, and another when it takes spans again.
//
// It writes the protocol itself: docs/decisions/0088-spans-without-an-sdk.md says why.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/trace"
)

// Options of an [Exporter].
type Options struct {
	Env     func(name string) string // reads a variable; usually os.Getenv
	Version string
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Exporter posts spans to a collector.
type Exporter struct {
	settings
	frame   frame
	log     zerolog.Logger
	client  *http.Client
	spans   chan *trace.Span
	results *prometheus.CounterVec
	failed  int // posts in a row; only Run reads and writes it
}

// New reads the variables. It sends nothing before [Exporter.Run]. A variable that cannot be used is an error with its
// name.
func New(o Options) (*Exporter, error) {
	instance := make([]byte, 16)
	for i := range instance {
		instance[i] = byte(rand.Uint32())
	}
	s, err := read(o.Env, o.Version, hex.EncodeToString(instance))
	if err != nil {
		return nil, fmt.Errorf("set up tracing: %w", err)
	}
	e := &Exporter{
		settings: s, frame: newFrame(s.resource, o.Version), log: o.Log, spans: make(chan *trace.Span, s.queue),
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:     (&net.Dialer{Timeout: s.timeout}).DialContext,
				TLSClientConfig: s.tls, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1, ForceAttemptHTTP2: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_trace_spans_total",
			Help: "Spans of traces, by what became of them: exported, lost (the collector did not take them). " +
				"Only where tracing is on.",
		}, []string{"result"}),
	}
	for _, result := range []string{exported, lost} {
		e.results.WithLabelValues(result)
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(e.results); err != nil {
			return nil, fmt.Errorf("register the metrics of tracing: %w", err)
		}
	}
	return e, nil
}

const (
	exported = "exported"
	lost     = "lost"
)

// Secrets are the values of the headers, which no log may have.
func (e *Exporter) Secrets() (values []string) {
	for _, v := range e.headers {
		values = append(values, v...)
	}
	return values
}

// Tracer makes the spans that are exported; nil where the variables switch tracing off. See [trace.Options].
func (e *Exporter) Tracer(propagate ...string) *trace.Tracer {
	if e.off {
		return nil
	}
	return trace.New(trace.Options{Sample: e.sample, Take: e.take, Propagate: propagate})
}

// take never waits.
func (e *Exporter) take(s *trace.Span) {
	select {
	case e.spans <- s:
	default:
		e.results.WithLabelValues(lost).Inc()
	}
}

// flushTime bounds how long the end of Corebot waits for a collector.
const flushTime = 2 * time.Second

// Run posts spans until ctx ends, and then those that are left, within two seconds.
func (e *Exporter) Run(ctx context.Context) error {
	e.log.Info().Str("collector", e.endpoint.Host).Msg("tracing")
	defer e.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if batch := e.gather(ctx); len(batch) > 0 {
			e.export(ctx, batch)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	for {
		batch := e.waiting(nil)
		if len(batch) == 0 {
			return nil
		}
		e.settle(e.post(last, batch), len(batch))
	}
}

// gather waits for a first span, and then for a full batch, until the delay has passed.
func (e *Exporter) gather(ctx context.Context) []*trace.Span {
	var batch []*trace.Span
	select {
	case <-ctx.Done():
		return nil
	case s := <-e.spans:
		batch = append(batch, s)
	}
	up := time.NewTimer(e.delay)
	defer up.Stop()
	for len(batch) < e.batch {
		select {
		case s := <-e.spans:
			batch = append(batch, s)
			continue
		case <-up.C:
		case <-ctx.Done():
		}
		break
	}
	return batch
}

// waiting adds what waits to a batch, and waits for nothing.
func (e *Exporter) waiting(batch []*trace.Span) []*trace.Span {
	for len(batch) < e.batch {
		select {
		case s := <-e.spans:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// tries is how often a batch is posted to a collector that has worked until now. A failing one is tried with one batch
// after the other: the newest spans are worth the most.
const tries = 3

var pause = backoff.Policy{Base: time.Second, Max: 30 * time.Second}

// export posts a batch, and waits after a failure, however long the collector wants it, but not for ever.
func (e *Exporter) export(ctx context.Context, batch []*trace.Span) {
	most := tries
	if e.failed > 0 {
		most = 1
	}
	for n := 1; ; n++ {
		err := e.post(ctx, batch)
		again := (*busy)(nil)
		if retry := errors.As(err, &again) && n < most && ctx.Err() == nil; !retry {
			if ctx.Err() != nil && err != nil { // the flush tries them once more
				e.giveBack(batch)
				return
			}
			if e.settle(err, len(batch)); err != nil {
				backoff.Sleep(ctx, pause.After(e.failed))
			}
			return
		}
		backoff.Sleep(ctx, max(min(again.after, pause.Max), pause.After(n)))
	}
}

func (e *Exporter) giveBack(batch []*trace.Span) {
	for _, s := range batch {
		e.take(s)
	}
}

// settle counts what became of a batch, and logs a change.
func (e *Exporter) settle(err error, spans int) {
	if partly := (*partial)(nil); errors.As(err, &partly) {
		gone := min(int(partly.rejected), spans)
		e.results.WithLabelValues(lost).Add(float64(gone))
		e.results.WithLabelValues(exported).Add(float64(spans - gone))
	} else if err != nil {
		e.results.WithLabelValues(lost).Add(float64(spans))
	} else {
		e.results.WithLabelValues(exported).Add(float64(spans))
	}
	switch {
	case err != nil && e.failed == 0:
		e.log.Warn().Err(err).Str("collector", e.endpoint.Host).
			Msg("spans are lost; corebot_trace_spans_total counts them")
	case err == nil && e.failed > 0:
		e.log.Info().Str("collector", e.endpoint.Host).Msg("spans are exported again")
	}
	if e.failed++; err == nil {
		e.failed = 0
	}
}

// busy is a failure after which the same batch can be posted again.
type busy struct {
	err   error
	after time.Duration // that the collector asked for; zero: none
}

func (b *busy) Error() string { return b.err.Error() }

// partial says that the collector took some spans of a batch only.
type partial struct{ rejected int64 }

func (p *partial) Error() string { return fmt.Sprintf("the collector refused %d spans", p.rejected) }

const maxAnswer = 64 << 10

// post posts a batch once. No error has the address or a header: they can be secret.
func (e *Exporter) post(ctx context.Context, batch []*trace.Span) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	body := e.frame.request(batch)
	if e.gzip {
		body = zipped(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("the request cannot be made")
	}
	for name, values := range e.headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if e.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return &busy{err: err}
	}
	defer resp.Body.Close() //nolint:errcheck // it is read as far as it matters
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 == 2:
		if n := rejected(answer); n > 0 {
			return &partial{n}
		}
		return nil
	case slices.Contains([]int{429, 502, 503, 504}, resp.StatusCode):
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &busy{
			fmt.Errorf("the collector answered %d", resp.StatusCode),
			time.Duration(min(max(seconds, 0), 3600)) * time.Second,
		}
	}
	return fmt.Errorf("the collector answered %d", resp.StatusCode)
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}
