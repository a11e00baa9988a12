package observability_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/observability"
)

// options are those of a server that is well.
func options() observability.Options {
	return observability.Options{
		Addr: "127.0.0.1:0", Gather: observability.NewRegistry("v1"), Log: zerolog.Nop(),
		Ready:  func(context.Context) []string { return nil },
		Status: func(context.Context) (any, error) { return map[string]int{"chats": 3}, nil },
	}
}

// serve runs a server until the test ends and gives its address.
func serve(t *testing.T, o observability.Options) string {
	t.Helper()
	s, err := observability.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr()
}

func get(t *testing.T, url, authorization string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEachEndpointSaysWhatItIsFor(t *testing.T) {
	url := serve(t, options())
	for path, want := range map[string]string{
		"/health": "ok\n", "/ready": "ready\n", "/status": "{\n  \"chats\": 3\n}\n",
		"/metrics": `corebot_build_info{version="v1"} 1`,
	} {
		if status, body := get(t, url+path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	if status, _ := get(t, url+"/debug/pprof/", ""); status != 404 {
		t.Errorf("another path: %d", status)
	}
}

func TestNotReadyNamesItsReasonsWhileHealthStaysOk(t *testing.T) {
	o := options()
	o.Ready = func(context.Context) []string { return []string{"the disk is full", "no model"} }
	url := serve(t, o)
	if status, body := get(t, url+"/ready", ""); status != 503 || body != "the disk is full\nno model\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := get(t, url+"/health", ""); status != 200 {
		t.Errorf("health: %d", status)
	}
}

func TestAStatusThatCannotBeReadTellsTheLogAndNotTheCaller(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = zerolog.New(&log)
	o.Status = func(context.Context) (any, error) { return nil, errors.New("secret detail") }
	status, body := get(t, serve(t, o)+"/status", "")
	if status != 500 || strings.Contains(body, "secret") || !strings.Contains(log.String(), "secret detail") {
		t.Errorf("%d %q, the log %q", status, body, log.String())
	}
}

func TestAStatusThatIsNotReadInTimeIsAskedForAgain(t *testing.T) {
	o := options()
	o.Status = func(context.Context) (any, error) { return nil, fmt.Errorf("read: %w", context.DeadlineExceeded) }
	status, body := get(t, serve(t, o)+"/status", "")
	if status != 503 || !strings.Contains(body, "ask again") {
		t.Errorf("%d %q", status, body)
	}
}

func TestWithATokenOnlyHealthAndReadyAreOpen(t *testing.T) {
	o := options()
	o.Token = "a-long-enough-token"
	url := serve(t, o)
	for _, path := range []string{"/metrics", "/status"} {
		for _, wrong := range []string{
			"", "Bearer", "Bearer ", "Bearer a-long-enough-toke",
			"Bearer a-long-enough-token2", "bearer a-long-enough-token ", "Basic a-long-enough-token", o.Token,
		} {
			if status, body := get(t, url+path, wrong); status != 401 || strings.Contains(body, o.Token) {
				t.Errorf("%s with %q: %d", path, wrong, status)
			}
		}
		if status, _ := get(t, url+path, "Bearer "+o.Token); status != 200 {
			t.Errorf("%s with the token: %d", path, status)
		}
	}
	for _, path := range []string{"/health", "/ready"} {
		if status, _ := get(t, url+path, ""); status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestAListenerThatOthersReachAndThatAsksForNoTokenIsRefused(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		o := options()
		o.Addr = addr
		if s, err := observability.NewServer(o); !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v, %v", addr, s, err)
		}
		o.Token = "a-long-enough-token"
		s, err := observability.NewServer(o)
		if err != nil {
			t.Fatalf("%s with a token: %v", addr, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestABusyPortIsKnownAtOnceAndFreedByClose(t *testing.T) {
	first, err := observability.NewServer(options())
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Addr = first.Addr()
	if _, err := observability.NewServer(o); corebot.HintOf(err) == "" {
		t.Errorf("the error is %v, without a hint", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := observability.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestARequestThatIsUnderWayIsAnsweredBeforeRunReturns(t *testing.T) {
	o := options()
	began, release := make(chan struct{}), make(chan struct{})
	o.Ready = func(context.Context) []string {
		close(began)
		<-release
		return nil
	}
	s, err := observability.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan int, 1)
	go func() {
		status, _ := get(t, "http://"+s.Addr()+"/ready", "")
		answered <- status
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-began
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("Run returned %v, while the request was still running", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if status := <-answered; status != 200 {
		t.Errorf("the request was answered %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheMetricsOfAWholeCorebotAreWellFormed(t *testing.T) {
	registry := observability.NewRegistry("v1")
	k := apptest.New(t, apptest.Options{Model: apptest.Script(apptest.Text("hi"))})
	if _, err := channels.NewOutbox(k.Bus, k.Ledger, "", zerolog.Nop(), k.Registry); err != nil {
		t.Fatal(err)
	}
	k.Say("a", "1", "hello")
	d := k.Claim()
	r, err := k.Agent.Turn(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Ledger.Commit(t.Context(), d, r); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(k.Registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
	o := options()
	o.Gather = prometheus.Gatherers{registry, k.Registry}
	_, body := get(t, serve(t, o)+"/metrics", "")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"corebot_bus_published_total", "corebot_model_calls_total", "corebot_turns_running",
		"go_goroutines", "process_start_time_seconds",
	} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for name := range families {
		if !strings.HasPrefix(name, "corebot_") && !strings.HasPrefix(name, "go_") &&
			!strings.HasPrefix(name, "process_") {
			t.Errorf("%s is nobody's", name)
		}
	}
}
