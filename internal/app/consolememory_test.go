package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// shownFacts are the facts that the page Memory has in JSON.
func (b browser) shownFacts(query string) (page operate.Page[operate.Fact], more string) {
	b.t.Helper()
	var shown struct {
		Facts struct {
			operate.Page[operate.Fact]
			More string
		}
	}
	status, text := b.get("/memory?"+query, "Accept", "application/json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || status != http.StatusOK {
		b.t.Fatalf("/memory?%s is %d, %s: %v", query, status, text, err)
	}
	return shown.Facts.Page, shown.Facts.More
}

// learns stores facts in their order.
func learns(t *testing.T, facts *storage.Facts, all ...corebot.Fact) {
	t.Helper()
	for _, f := range all {
		f.At = time.Now()
		if err := facts.Learn(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
}

const markup = `<script>alert(1)</script>"' onload=x <b>&amp;` + "\u202e"

func TestTheConsoleShowsFactsAndForgetsThem(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b, facts := loggedIn(t, a), storage.NewFacts(a.Store)
	home := corebot.Key{Agent: "main", Channel: "test", Account: "x", Chat: "home"}
	work := corebot.Key{Agent: "main", Channel: "test", Account: "x", Chat: "work"}
	other := corebot.Key{Agent: "other", Channel: "test", Account: "x", Chat: "home"}
	ada := corebot.Principal{Channel: "test", ID: "ada"}
	lives := corebot.Fact{
		Key: home, Scope: corebot.FactsOfChat, Subject: "Ada", Relation: "lives in", Object: "Rome", Sender: ada,
		MessageID: "m 1&x=<i>", Replaces: true,
	}
	moved, marked, atWork, elsewhere := lives, lives, lives, lives
	moved.Object = "Oslo"
	marked.Subject, marked.Relation, marked.Object, marked.Taint = markup, markup, markup, markup
	marked.Sender.ID = markup
	atWork.Key, atWork.Object, atWork.Scope, atWork.Trusted = work, "Bonn", corebot.FactsOfAgent, true
	elsewhere.Key, elsewhere.Object = other, "Paris"
	learns(t, facts, lives, moved, marked, atWork, elsewhere)

	_, text := b.get("/memory")
	for _, want := range []string{
		"<b>Ada</b> · lives in · Oslo", "said by test::ada", "/chats/main:test:x:home", "/why?id=m%201%26x%3d%3ci%3e",
		"others can have had a hand in it", "an admin stands for it", "seen in all chats of the agent",
		"&lt;script&gt;alert(1)&lt;/script&gt;",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	for _, never := range []string{"Rome", "Paris", "\u202e", "<script>alert", "<b>&amp;amp;", `x=<i>`} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q: %s", never, text)
		}
	}
	if _, text := b.get("/memory?superseded=yes"); !strings.Contains(text, "<s><b>Ada</b> · lives in · Rome</s>") ||
		!strings.Contains(text, "superseded by F2") {
		t.Errorf("with superseded facts the page is %s", text)
	}
	for query, want := range map[string]string{
		"": "4 3 2", "superseded=yes": "4 3 2 1", "chat=" + home.String(): "4 3 2",
		"chat=" + work.String(): "4", "find=Oslo": "",
	} {
		page, _ := b.shownFacts(query)
		ids := make([]string, len(page.Rows))
		for i, f := range page.Rows {
			ids[i] = fmt.Sprint(f.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("/memory?%s has the facts %s, want %s", query, got, want)
		}
	}

	form := url.Values{"fact": {"2", "3"}, "back": {"/memory?chat=" + home.String()}}
	const path = "/memory/facts/forget"
	for _, headers := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		if status, _ := b.post(path, form, headers...); status != http.StatusForbidden {
			t.Errorf("a post with %v is %d", headers, status)
		}
	}
	if status, _ := newBrowser(t, a).post(path, form); status != http.StatusUnauthorized {
		t.Errorf("without a login it is %d", status)
	}
	for bad, want := range map[string]int{
		"": 422, "fact=x": 422, "fact=99": 404, strings.Repeat("fact=2&", 51): 422,
	} {
		ids, _ := url.ParseQuery(bad)
		if status, text := b.post(path, ids); status != want {
			t.Errorf("a form with %.20q is %d, want %d: %s", bad, status, want, text)
		}
	}
	if page, _ := b.shownFacts(""); len(page.Rows) != 3 {
		t.Fatalf("a refused form has forgotten: %+v", page.Rows)
	}
	if status, text := b.post(path, form); status != http.StatusOK ||
		!strings.Contains(text, "Facts that are forgotten: 2.") || strings.Contains(text, "Oslo") {
		t.Errorf("the form is answered with %d, %s", status, text)
	}
	if page, _ := b.shownFacts("superseded=yes"); len(page.Rows) != 2 || page.Rows[0].ID != 4 {
		t.Errorf("after that there are %+v", page.Rows)
	}
	if _, text := b.get("/audit"); strings.Count(text, "facts.forget <") != 2 || !strings.Contains(text, "console") {
		t.Errorf("the audit trail is %s", text)
	}
	for _, name := range []string{"facts.forget", "facts forget", "corebot facts forget"} { // as an operator knows it
		_, text := b.get("/audit?" + url.Values{"tool": {name}}.Encode())
		if strings.Count(text, "facts.forget <") != 2 {
			t.Errorf("%q finds %s", name, text)
		}
	}
	if _, text := b.get("/audit?tool=facts"); strings.Contains(text, "facts.forget <") {
		t.Errorf("a beginning of a name finds %s", text)
	}
}

func TestFactsHavePages(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	b := loggedIn(t, a)
	var all []corebot.Fact
	for n := range 53 {
		all = append(all, corebot.Fact{
			Key:   corebot.Key{Agent: "main", Channel: "test", Account: "x", Chat: "home"},
			Scope: corebot.FactsOfChat, Subject: "Ada", Relation: "has read", Object: fmt.Sprintf("book %d.", n),
		})
	}
	learns(t, storage.NewFacts(a.Store), all...)
	page, more := b.shownFacts("agent=main")
	if len(page.Rows) != 50 || page.Rows[0].Object != "book 52." || !strings.Contains(more, "agent=main") {
		t.Fatalf("the first page has %d facts, and then %s", len(page.Rows), more)
	}
	if _, text := b.get(more); strings.Count(text, "has read") != 3 || !strings.Contains(text, "book 0.") {
		t.Errorf("the second page is %s", text)
	}
	_, query, _ := strings.Cut(more, "?")
	last, end := b.shownFacts(query)
	if len(last.Rows) != 3 || end != "" {
		t.Errorf("the second page has %+v, and then %s", last.Rows, end)
	}
	form := url.Values{"back": {more}}
	for _, f := range last.Rows {
		form.Add("fact", fmt.Sprint(f.ID))
	}
	if _, text := b.post("/memory/facts/forget", form); !strings.Contains(text, "No older fact is left.") {
		t.Errorf("a page whose facts are gone is %s", text)
	}
}

// A page of the longest facts that there can be is small, also if HTML spells each of their characters with five.
func TestAPageOfTheLongestFactsIsSmall(t *testing.T) {
	t.Parallel()
	for letter, most := range map[string]int{"x": 80_000, `"`: 100_000, "<": 100_000} {
		a := daemon(t, t.TempDir())
		long := strings.Repeat(letter, corebot.MaxFactField)
		var all []corebot.Fact
		for n := range 50 {
			all = append(all, corebot.Fact{
				Key:   corebot.Key{Agent: "main", Channel: "test", Account: "x", Chat: strings.Repeat(letter, 100)},
				Scope: corebot.FactsOfChat, Subject: long, Relation: long, Object: fmt.Sprint(n) + long[2:],
				Taint: strings.Repeat(letter, 2000), Sender: corebot.Principal{Channel: "test", ID: long},
			})
		}
		learns(t, storage.NewFacts(a.Store), all...)
		_, text := loggedIn(t, a).get("/memory?agent=main")
		if shown := strings.Count(text, `name="fact"`); shown != 50 || len(text) > most {
			t.Errorf("a page of %d facts of %s has %d bytes", shown, letter, len(text))
		}
	}
}
