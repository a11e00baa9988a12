package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// keyed makes a request under an idempotency key.
func (a api) keyed(method, path, body string, keys ...string) (status int, replayed bool, answer string) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + a.token}, "Content-Type": {"application/json"}, "Idempotency-Key": keys,
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Error(err)
		return 0, false, ""
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	return resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", string(text)
}

func TestARequestWithAKeyIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	home, _ := deadHome(t)
	a := daemon(t, home)
	operator, other := newAPI(t, a, "operator", "operate"), newAPI(t, a, "other", "operate")
	task := `{"chat": "main:webhook::work", "kind": "daily", "spec": "08:30", "prompt": "the news"}`
	status, replayed, first := operator.keyed("POST", "/api/schedules", task, "k1")
	if status != http.StatusOK || replayed {
		t.Fatalf("it is %d, %v, %s", status, replayed, first)
	}
	if status, replayed, again := operator.keyed("POST", "/api/schedules", task, "k1"); status != http.StatusOK ||
		!replayed || again != first {
		t.Errorf("again it is %d, %v, %s, at first %s", status, replayed, again, first)
	}
	for _, c := range []struct {
		method, path, body string
		keys               []string
		want               int
	}{
		{"POST", "/api/schedules", strings.Replace(task, "news", "weather", 1), []string{"k1"}, 422},
		{"DELETE", "/api/schedules/1", "", []string{"k1"}, 422},
		{"POST", "/api/schedules", task, []string{"k1", "k2"}, 400},
		{"POST", "/api/schedules", task, []string{""}, 400},
		{"POST", "/api/schedules", task, []string{strings.Repeat("x", 201)}, 400},
		{"DELETE", "/api/schedules/99", "", []string{"k3"}, 404}, // a failure
		{"POST", "/api/schedules", task, []string{"k3"}, 200},    // leaves its key free
	} {
		status, replayed, answer := operator.keyed(c.method, c.path, c.body, c.keys...)
		if status != c.want || replayed {
			t.Errorf("%s %s under %.20q is %d, %v, %s", c.method, c.path, c.keys, status, replayed, answer)
		}
	}
	if status, replayed, _ := other.keyed("POST", "/api/schedules", task, "k1"); status != 200 || replayed {
		t.Errorf("of another token it is %d, %v", status, replayed)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			status, _, answer := operator.keyed("POST", "/api/schedules", task, "many")
			if status != http.StatusOK && status != http.StatusConflict {
				t.Errorf("of many at once one is %d, %s", status, answer)
			}
		})
	}
	wg.Wait()
	var tasks operate.Page[json.RawMessage]
	operator.get("/api/schedules", &tasks)
	if len(tasks.Rows) != 4 {
		t.Errorf("there are %d tasks, want 4: %s", len(tasks.Rows), tasks.Rows)
	}
	for range 2 { // a change that stores nothing has a key, too
		if status, _, answer := operator.keyed("POST", "/api/agents/main/mcp/reload", "", "reload"); status != 200 {
			t.Errorf("the reload is %d, %s", status, answer)
		}
	}
}

func TestAProgramSendsAndFetchesFiles(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app, other := newSender(t, a, "app", "main"), newSender(t, a, "other", "others")
	body := `{"id": "f1", "attachments": [{"name": "a <b>.txt", "type": "text/html", "data": "aGVsbG8="}], "wait": 30}`
	status, got := app.say(body)
	if status != http.StatusOK || !got.Answered {
		t.Fatalf("it is %d, %+v", status, got)
	}
	if status, again := app.say(body); status != http.StatusOK || again.Status != "duplicate" {
		t.Errorf("again it is %d, %+v", status, again)
	}
	if status, answer := app.ask("POST", messages, strings.Replace(body, "aGVsbG8=", "aGVsbG8h", 1)); status !=
		http.StatusConflict {
		t.Errorf("with another file it is %d, %s", status, answer)
	}
	for wrong, want := range map[string]int{
		`{"attachments": [{"name": "a", "data": "not base64"}]}`:                                 400,
		`{"attachments": [{"name": "a"}]}`:                                                       400,
		`{"attachments": [{"data": "aGVsbG8=", "name": "` + strings.Repeat("x", 600) + `"}]}`:    422,
		`{"attachments": [` + strings.Repeat(`{"data": "aGVsbG8="},`, 20) + `{"data": "eA=="}]}`: 422,
	} {
		if status, answer := app.ask("POST", messages, wrong); status != want {
			t.Errorf("%.80s is %d, want %d: %s", wrong, status, want, answer)
		}
	}
	const hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of hello
	fetch := func(by api, path string) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", by.base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+by.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(text)
	}
	status, head, text := fetch(app, "/api/agents/main/files/"+hash)
	if status != http.StatusOK || text != "hello" || head.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(head.Get("Content-Disposition"), "attachment") ||
		head.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(head.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the file is %d, %q, %v", status, text, head)
	}
	for path, want := range map[string]int{
		"/api/agents/main/files/" + hash:                         http.StatusForbidden,
		"/api/agents/main/files/" + hash + "?sessionKey=others":  http.StatusNotFound, // of another chat
		"/api/agents/main/files/..%2f..%2fetc?sessionKey=others": http.StatusNotFound,
	} {
		if status, _, text := fetch(other, path); status != want {
			t.Errorf("%s is %d, want %d: %s", path, status, want, text)
		}
	}
}

func TestAnAgentSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app, reader := newSender(t, a, "app", "*"), newAPI(t, a, "reader", "read")
	var now struct {
		AgentID, Status  string
		Running, Waiting int
		Chats            []struct{ SessionID, MessageID, State string }
	}
	if reader.get("/api/agents/main/status", &now); now.Status != "idle" || len(now.Chats) != 0 {
		t.Errorf("at first it is %+v", now)
	}
	wait := `/tool wait.until {\"duration\":\"1h\"}`
	for _, id := range []string{"m1", "m2"} {
		if status, got := app.say(`{"id": "` + id + `", "content": "` + wait + `"}`); status != http.StatusAccepted {
			t.Fatalf("%d, %+v", status, got)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); now.Status != "waiting" || now.Waiting != 2; {
		if reader.get("/api/agents/main/status", &now); time.Now().After(deadline) {
			t.Fatalf("it is %+v", now)
		}
	}
	if len(now.Chats) != 1 || now.Chats[0].SessionID != "main:api::main" || now.Chats[0].MessageID != "m1" {
		t.Errorf("it is %+v", now)
	}
	if status, answer := reader.ask("GET", "/api/agents/nobody/status", ""); status != http.StatusNotFound {
		t.Errorf("of another agent it is %d, %s", status, answer)
	}
	if status, answer := reader.ask("GET", "/api/usage/sums?by=mood", ""); status != http.StatusBadRequest {
		t.Errorf("sums by mood are %d, %s", status, answer)
	}
}

func TestASearchOfMemoriesComesInPages(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app, reader := newSender(t, a, "app", "*"), newAPI(t, a, "reader", "read")
	for _, line := range []string{"green tea", "bread", "black tea", "tea of yesterday"} {
		app.say(`{"content": "/tool memory.write {\"scope\":\"chat\",\"content\":\"` + line + `\"}", "wait": 30}`)
	}
	var page struct {
		Next string
		Rows []struct{ Text string }
	}
	seen, after := "", ""
	for n := 0; n == 0 || after != ""; n++ {
		page.Next = ""
		reader.get("/api/memory?text=tea&limit=1&after="+after, &page)
		if len(page.Rows) != 1 || n > 3 {
			t.Fatalf("page %d is %+v", n, page)
		}
		seen, after = seen+page.Rows[0].Text+"\n", page.Next
	}
	for _, want := range []string{"green tea", "black tea", "tea of yesterday"} {
		if strings.Count(seen, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, seen)
		}
	}
	status, answer := reader.ask("GET", "/api/memory?text=tea&after=x", "")
	if status != http.StatusUnprocessableEntity {
		t.Errorf("a cursor that is none: %d, %s", status, answer)
	}
}

func TestTheMemoryOfAChatComesInPages(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app, reader := newSender(t, a, "app", "*"), newAPI(t, a, "reader", "read")
	for _, line := range []string{"tea", "bread", "milk"} {
		app.say(`{"content": "/tool memory.write {\"scope\":\"chat\",\"content\":\"` + line + `\"}", "wait": 30}`)
	}
	var whole, page struct {
		Fingerprint, Next string
		Pieces            []struct{ Text string }
	}
	reader.get("/api/chats/main:api::main/memory", &whole)
	if len(whole.Pieces) < 3 || whole.Next != "" {
		t.Fatalf("the memory is %+v", whole)
	}
	seen, after := "", ""
	for n := 0; n == 0 || after != ""; n++ {
		page.Next = ""
		reader.get("/api/chats/main:api::main/memory?limit=1&after="+after, &page)
		if len(page.Pieces) > 1 || page.Fingerprint != whole.Fingerprint || n > len(whole.Pieces) {
			t.Fatalf("page %d is %+v", n, page)
		}
		for _, p := range page.Pieces {
			seen += p.Text
		}
		after = page.Next
	}
	want := ""
	for _, p := range whole.Pieces {
		want += p.Text
	}
	if seen != want {
		t.Errorf("the pages have %q, want %q", seen, want)
	}
	if status, answer := reader.ask("GET", "/api/chats/main:api::main/memory?after=x", ""); status != 400 {
		t.Errorf("behind x it is %d, %s", status, answer)
	}
}

func TestFactsAreReadAndForgottenOverTheAPI(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	reader, operator := newAPI(t, a, "reader", "read"), newAPI(t, a, "operator", "operate")
	key := corebot.Key{Agent: "main", Channel: "test", Chat: "home"}
	ada := corebot.Principal{Channel: "test", ID: "ada"}
	for _, object := range []string{"Rome", "Oslo"} {
		if err := storage.NewFacts(a.Store).Learn(t.Context(), corebot.Fact{
			Key: key, Scope: corebot.FactsOfChat, Subject: "Ada", Relation: "lives in", Object: object, Sender: ada,
			MessageID: "m1", Taint: "web", Replaces: true, At: time.Now(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	var page operate.Page[operate.Fact]
	reader.get("/api/facts", &page)
	if len(page.Rows) != 1 || page.Rows[0].Object != "Oslo" || page.Rows[0].Sender != ada.String() ||
		page.Rows[0].Taint != "web" {
		t.Fatalf("the facts are %+v", page.Rows)
	}
	newest := page.Rows[0]
	reader.get("/api/facts?superseded=true&chat="+key.String(), &page)
	if len(page.Rows) != 2 || page.Rows[1].SupersededBy != newest.ID {
		t.Errorf("the facts with those superseded are %+v", page.Rows)
	}
	path := "/api/facts/" + strconv.FormatInt(newest.ID, 10)
	if status, answer := reader.ask("DELETE", path, ""); status != http.StatusForbidden {
		t.Errorf("a reader forgets: %d, %s", status, answer)
	}
	var one operate.Fact
	if reader.get(path, &one); one.Object != "Oslo" {
		t.Errorf("the fact is %+v", one)
	}
	if status, answer := operator.ask("DELETE", path, ""); status != http.StatusOK {
		t.Errorf("an operator does not forget: %d, %s", status, answer)
	}
	if status, _ := reader.ask("GET", path, ""); status != http.StatusNotFound {
		t.Errorf("a forgotten fact is shown: %d", status)
	}
	for _, bad := range []string{"/api/facts?after=x", "/api/facts?chat=x", "/api/facts/x"} {
		if status, answer := reader.ask("GET", bad, ""); status < 400 || status >= 500 {
			t.Errorf("%s: %d, %s", bad, status, answer)
		}
	}
}
