package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// A whole Corebot behind the webhook: each message is sent three times at once, and has one reply.
func TestMessagesThatAreSentAgainAndAgainAreAnsweredOnceAndInOrder(t *testing.T) {
	k := apptest.New(t, apptest.Options{Model: apptest.Always(apptest.Text("answered"))})
	everybody, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	if err != nil {
		t.Fatal(err)
	}
	door, err := channels.NewFrontDoor(k.Bus, k.Router, channels.Admissions{
		Chats:    storage.NewChats(k.DB),
		Accounts: map[channels.Account]channels.AccountRules{Kind().Usual(): {Access: everybody}},
	}, channels.DoorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := startAt(t, Options{Metrics: k.Registry}, door.At(channels.Account{Kind: Channel}))
	outbox, err := channels.NewOutbox(k.Bus, k.Ledger, channels.Resend, zerolog.Nop(), k.Registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = outbox.Run(ctx, channels.Entry{Account: channels.Account{Kind: Channel}, Channel: f})
	}()
	t.Cleanup(func() { cancel(); <-ended })

	const messages = 10
	for i := range messages {
		got, count := make(chan response, 3), map[string]int{}
		for range 3 {
			go func() {
				got <- f.post(fmt.Sprintf(`{"id":"m%d","chatId":"c","senderId":"alice","content":"hello"}`, i))
			}()
		}
		for range 3 {
			count[(<-got).body]++
		}
		if count[fmt.Sprintf(`{"id":"m%d","status":"accepted"}`, i)] != 1 ||
			count[fmt.Sprintf(`{"id":"m%d","status":"duplicate"}`, i)] != 2 {
			t.Errorf("message %d: %v", i, count)
		}
	}
	wantProblem(t, f.post(`{"id":"m0","chatId":"c","senderId":"alice","content":"another"}`), 409, "another body")
	wantProblem(t, f.post(`{"id":"m0","chatId":"c","senderId":"mallory","content":"hello"}`), 409, "another sender")
	wantProblem(t, f.post(`{"id":"n","chatId":"c","content":" \n "}`), 422, "empty")
	wantProblem(t, f.post(`{"id":"n","chatId":"c\u0007","content":"x"}`), 422, "control character")
	k.Start()
	var order []string
	for cursor := ""; len(order) < messages; {
		page := f.outboundPage("&wait=60" + cursor)
		for _, m := range page.Messages {
			if m.Content == "answered" {
				order = append(order, m.InReplyTo)
			}
		}
		if len(page.Messages) == 0 {
			t.Fatalf("after a minute there are only the replies to %v", order)
		}
		cursor = "&after=" + page.Cursor
	}
	for i, id := range order {
		if id != fmt.Sprintf("m%d", i) {
			t.Fatalf("the replies came in the order %v", order)
		}
	}
	if got := f.post(`{"id":"s","chatId":"c","senderId":"alice","content":"/stop"}`); got.status != 202 {
		t.Errorf("/stop: %d %s", got.status, got.body)
	}
	wantProblem(t, f.post(`{"id":"s","chatId":"c","senderId":"alice","content":"hello"}`), 409, "another body")
	wantProblem(t, f.post(`{"id":"m1","chatId":"c","senderId":"alice","content":"/stop"}`), 409, "another body")
	wantCounted(t, k.Registry, pathPost, "202", 3*messages+1)
	wantCounted(t, k.Registry, pathPost, "409", 4)
}

func wantCounted(t *testing.T, r prometheus.Gatherer, path, status string, want float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + " "
			}
			if family.GetName() == "corebot_webhook_requests_total" && labels == "path="+path+" status="+status+" " {
				if got := m.GetCounter().GetValue(); got != want {
					t.Errorf("%s%v were counted, want %v", labels, got, want)
				}
				return
			}
		}
	}
	t.Errorf("no requests to %s with status %s were counted", path, status)
}

func TestEverySeriesOfRequestsExistsFromTheStart(t *testing.T) {
	within(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		f := start(t, Options{Metrics: r})
		for path, all := range statuses {
			if path == pathGuest {
				continue
			}
			for _, status := range all {
				wantCounted(t, r, path, status, 0)
			}
		}
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == pathGuest {
					t.Errorf("%s tells of %s, and there is no guest", family.GetName(), pathGuest)
				}
			}
		}
		f.get("/guess")
		wantCounted(t, r, pathOther, class4, 1)
	})
}

// wantOnlyKnownStatuses holds every request of a test to the series that exist from the start.
func wantOnlyKnownStatuses(t *testing.T, w *Webhook) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(w.metrics.requests)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 {
		t.Fatalf("there are %d families of series, want 1", len(families))
	}
	for _, m := range families[0].GetMetric() {
		path, status := m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue()
		if !slices.Contains(statuses[path], status) {
			t.Errorf("%s answered %s, a series that does not exist from the start", path, status)
		}
	}
}

func TestPathsOfCallersAreNoLabels(t *testing.T) {
	within(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		f := start(t, Options{Metrics: r})
		for i := range 5 {
			f.get(fmt.Sprintf("/guess/%d", i))
		}
		f.do(f.request("BREW", pathPost, nil))
		wantCounted(t, r, pathOther, class4, 5)
		wantCounted(t, r, pathPost, "405", 1)
	})
}

func TestOpenStreamsAndPollsAreCounted(t *testing.T) {
	within(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		f := start(t, Options{Metrics: r})
		s := f.follow("c", "")
		if got := waiting(t, r); got != "guest 0 poll 0 stream 1" {
			t.Errorf("with a stream: %s", got)
		}
		s.Close()
		f.outboundPage("&wait=1")
		if got := waiting(t, r); got != "guest 0 poll 0 stream 0" {
			t.Errorf("with none: %s", got)
		}
	})
}

func waiting(t *testing.T, r prometheus.Gatherer) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		if family.GetName() != "corebot_webhook_waiting" {
			continue
		}
		for _, m := range family.GetMetric() {
			out = append(out, fmt.Sprintf("%s %v", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
		}
	}
	return strings.Join(out, " ")
}
