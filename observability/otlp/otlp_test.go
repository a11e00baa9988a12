package otlp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/trace"
	"github.com/corebot/corebot/observability/otlp"
)

// env are the variables of a test.
type env map[string]string

func (e env) get(name string) string { return e[name] }

// exporting is an exporter at work.
type exporting struct {
	*trace.Tracer
	*otlp.Exporter
	metrics *prometheus.Registry
	log     bytes.Buffer // read it after stop
	stop    func()
}

func export(t *testing.T, variables env) *exporting {
	t.Helper()
	x := &exporting{metrics: prometheus.NewRegistry()}
	var err error
	x.Exporter, err = otlp.New(otlp.Options{
		Env: variables.get, Version: "1.2.3", Log: zerolog.New(&x.log), Metrics: x.metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Tracer = x.Exporter.Tracer()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	stopped := false
	x.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(x.stop)
	return x
}

func (x *exporting) one() { x.Begin(corebot.Trace{}, trace.Internal, "a", "span", time.Now()).End() }

func (x *exporting) count(t *testing.T, result string, want int) bool {
	t.Helper()
	text := fmt.Sprintf(`# HELP corebot_trace_spans_total Spans of traces, by what became of them: exported, lost `+
		`(the collector did not take them). Only where tracing is on.
# TYPE corebot_trace_spans_total counter
corebot_trace_spans_total{result="exported"} %d
corebot_trace_spans_total{result="lost"} %d
`, map[string]int{"exported": want}[result], map[string]int{"lost": want}[result])
	return testutil.GatherAndCompare(x.metrics, strings.NewReader(text)) == nil
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so in time: %s", what)
		}
	}
}

func TestASpanArrivesAsTheProtocolHasIt(t *testing.T) {
	got := make(chan *tracepb.TracesData, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil || r.URL.Path != "/base/v1/traces" || r.Header.Get("Content-Encoding") != "gzip" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Authorization") != "Basic a=b" {
			t.Errorf("%s %v: %v", r.URL, r.Header, err)
			return
		}
		body, err := io.ReadAll(unzipped)
		data := new(tracepb.TracesData)
		if err = errors.Join(err, proto.Unmarshal(body, data)); err != nil {
			t.Error(err)
		}
		got <- data
	}))
	defer server.Close()
	x := export(t, env{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL + "/base/", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20a=b, x=y", "OTEL_BSP_SCHEDULE_DELAY": "1",
		"OTEL_RESOURCE_ATTRIBUTES": "service.name=other,team=night%20shift", "OTEL_SERVICE_NAME": "bot",
	})
	parent, _ := corebot.ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	s := x.Begin(parent, trace.Client, "chat", "model", time.Unix(1, 2))
	s.Text("text", "value")
	s.Number("number", -5)
	s.Number("zero", 0)
	s.Fail("rate_limited")
	s.EndAt(time.Unix(3, 4))
	data := <-got
	resource := map[string]string{}
	for _, a := range data.ResourceSpans[0].Resource.Attributes {
		resource[a.Key] = a.Value.GetStringValue()
	}
	if resource["service.name"] != "bot" || resource["team"] != "night shift" ||
		resource["service.version"] != "1.2.3" || len(resource["service.instance.id"]) != 32 {
		t.Errorf("the resource is %v", resource)
	}
	in := data.ResourceSpans[0].ScopeSpans[0]
	if in.Scope.Name != "github.com/corebot/corebot" || in.Scope.Version != "1.2.3" || len(in.Spans) != 1 {
		t.Fatalf("%v", in)
	}
	span := in.Spans[0]
	if hex.EncodeToString(span.TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" ||
		hex.EncodeToString(span.ParentSpanId) != "00f067aa0ba902b7" || len(span.SpanId) != 8 ||
		span.Name != "chat model" || span.Kind != tracepb.Span_SPAN_KIND_CLIENT ||
		span.StartTimeUnixNano != 1e9+2 || span.EndTimeUnixNano != 3e9+4 ||
		span.Status.Code != tracepb.Status_STATUS_CODE_ERROR || span.Status.Message != "rate_limited" {
		t.Errorf("%v", span)
	}
	for i, want := range []string{
		`key:"text" value:{string_value:"value"}`, `key:"number" value:{int_value:-5}`,
		`key:"zero" value:{int_value:0}`, `key:"error.type" value:{string_value:"rate_limited"}`,
	} {
		if have := strings.Join(strings.Fields(span.Attributes[i].String()), " "); have != want {
			t.Errorf("attribute %d is %s, want %s", i, have, want)
		}
	}
	if unknown := span.ProtoReflect().GetUnknown(); len(unknown) != 0 {
		t.Errorf("the protocol knows nothing of %x", unknown)
	}
}

// TestADeadCollectorCostsNobodyAnythingButACounterAndALine ends far more spans than the queue holds.
func TestADeadCollectorCostsNobodyAnythingButACounterAndALine(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close() // nobody listens there
	x := export(t, env{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_BSP_MAX_QUEUE_SIZE": "10",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
		"OTEL_EXPORTER_OTLP_HEADERS":     "key=a-secret-of-the-operator",
	})
	began := time.Now()
	for range 1000 {
		x.one()
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("who ended the spans waited %v", took)
	}
	x.stop()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the end took %v", took)
	}
	if !x.count(t, "lost", 1000) {
		t.Error("not every lost span is counted")
	}
	if n := strings.Count(x.log.String(), `"level":"warn"`); n != 1 || strings.Contains(x.log.String(), "a-secret") {
		t.Errorf("%d warnings:\n%s", n, x.log.String())
	}
}

func TestWhatACollectorRefusesIsLostAndWhatItPutsOffIsPostedAgain(t *testing.T) {
	var asked atomic.Int64
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(http.ResponseWriter) {},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answers[min(asked.Add(1), int64(len(answers)))-1](w)
	}))
	defer server.Close()
	variables := env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL, "OTEL_BSP_SCHEDULE_DELAY": "1"}
	x := export(t, variables)
	x.one()
	until(t, "the batch is posted again", func() bool { return x.count(t, "exported", 1) })

	answers[1] = func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }
	refused := export(t, variables)
	refused.one()
	until(t, "it is lost", func() bool { return refused.count(t, "lost", 1) })

	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	answers[1] = func(w http.ResponseWriter) {
		_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
	}
	partly := export(t, variables)
	partly.one()
	until(t, "the receiver's word counts", func() bool { return partly.count(t, "lost", 1) })
}

func TestTheEndPostsWhatIsLeftAndWaitsForNoSlowCollector(t *testing.T) {
	var spans atomic.Int64
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		data := new(tracepb.TracesData)
		if proto.Unmarshal(body, data) == nil {
			spans.Add(int64(len(data.ResourceSpans[0].ScopeSpans[0].Spans)))
		}
		if r.URL.Path == "/slow" {
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	x := export(t, env{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_BSP_SCHEDULE_DELAY": "3600000"})
	for range 700 { // more than a batch
		x.one()
	}
	x.stop()
	if spans.Load() != 700 {
		t.Errorf("%d of 700 spans were posted", spans.Load())
	}
	slow := export(t, env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL + "/slow"})
	slow.one()
	began := time.Now()
	slow.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestAVariableThatCannotBeUsedIsNamedAndItsValueIsNot(t *testing.T) {
	bad := env{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://user:word@host",
		"OTEL_EXPORTER_OTLP_HEADERS": "secret", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b%0d%0ac",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TIMEOUT": "0", "OTEL_TRACES_EXPORTER": "zipkin",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "br", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nowhere", "OTEL_TRACES_SAMPLER": "sometimes",
		"OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_RESOURCE_ATTRIBUTES": "team",
	}
	for name, value := range bad {
		_, err := otlp.New(otlp.Options{Env: env{name: value}.get})
		if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" ||
			!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
	}
	share := env{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}
	if _, err := otlp.New(otlp.Options{Env: share.get}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a share of 2: %v", err)
	}
}

func TestTheVariablesSwitchTracingOffAndChooseTraces(t *testing.T) {
	begun := func(variables env, parent corebot.Trace) *trace.Span {
		e, err := otlp.New(otlp.Options{Env: variables.get})
		if err != nil {
			t.Fatal(err)
		}
		return e.Tracer().Begin(parent, trace.Internal, "a", "span", time.Now())
	}
	for _, off := range []env{{"OTEL_SDK_DISABLED": "True"}, {"OTEL_TRACES_EXPORTER": "none"}} {
		if s := begun(off, corebot.Trace{}); s != nil {
			t.Errorf("%v: %+v", off, s)
		}
	}
	sampled, _ := corebot.ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	dropped := sampled
	dropped.Sampled = false
	for _, c := range []struct {
		sampler, arg           string
		root, sampled, dropped bool
	}{
		{"", "", true, true, false},
		{"always_on", "", true, true, true},
		{"always_off", "", false, false, false},
		{"parentbased_always_off", "", false, true, false},
		{"traceidratio", "0", false, false, false},
		{"traceidratio", "1", true, true, true},
		{"parentbased_traceidratio", "0", false, true, false},
		{"traceidratio", "0.63", true, false, false}, // the last 63 bits of the id are 0.64 of all
		{"traceidratio", "0.65", true, true, true},
	} {
		v := env{"OTEL_TRACES_SAMPLER": c.sampler, "OTEL_TRACES_SAMPLER_ARG": c.arg}
		if len(c.arg) < 2 && begun(v, corebot.Trace{}).Recorded() != c.root ||
			begun(v, sampled).Recorded() != c.sampled || begun(v, dropped).Recorded() != c.dropped {
			t.Errorf("%+v is not so", c)
		}
	}
}
