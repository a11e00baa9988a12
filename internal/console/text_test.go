package console

import (
	"html/template"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// A text is clipped by the bytes that HTML takes for it.
func TestATextIsClippedAsHTMLSpellsIt(t *testing.T) {
	for _, unit := range []string{"x", "ä", "日", "🌷", `"`, "'", "<", ">", "&", "+", "\xff", "\x00", "<ä\">"} {
		for _, n := range []int{0, 1, 7, 50} {
			text := strings.Repeat(unit, 60)
			cut, whole := strings.CutSuffix(clip(n, text), "…")
			if spelt := len(template.HTMLEscapeString(cut)); spelt > n || !strings.HasPrefix(text, cut) || !whole {
				t.Errorf("%q is clipped to %q, with %d bytes of %d", unit, cut, spelt, n)
			}
		}
		if text := strings.Repeat(unit, 3); clip(60, text) != text {
			t.Errorf("%q is clipped to %q", text, clip(60, text))
		}
	}
}

func TestAmountsHaveTheDigitsThatCount(t *testing.T) {
	for amount, want := range map[corebot.Money]string{
		0: "0.00", 7: "0.000007", 1234: "0.00123", 935_628: "0.936", 999_999: "1.00", 1_061_697: "1.06",
		4_999_999: "5.00", 123_456_789_000: "123456.79",
	} {
		if got := money(amount); got != want {
			t.Errorf("%s is shown as %s, want %s", amount, got, want)
		}
	}
}

func TestAWaitThatTimeEndsIsToldWithItsTime(t *testing.T) {
	in := time.Now().Add(90 * time.Second)
	for state, want := range map[string]string{
		"waiting: backoff": "tried again in 1 min", "waiting: " + corebot.Throttled: "goes on in 1 min",
		"deferred: over budget":                "goes on in 1 min",
		"waiting: " + corebot.AwaitingApproval: "", "waiting: " + corebot.AwaitingJob: "", "running": "", "ready": "",
	} {
		if got := due(state, in); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	if got := due("waiting: "+corebot.AwaitingTime, time.Time{}); got != "" {
		t.Errorf("without a time: %q", got)
	}
}

func TestChatsAndSendersHaveNamesForPeople(t *testing.T) {
	for key, want := range map[string]string{
		"main:console:local:garden": "garden", "main:cli:local:work": "cli · work",
		"main:webhook::c1:t1": "webhook · c1 / t1", "other:webhook::c1": "other · webhook · c1",
	} {
		if got := chatName(key); got != want {
			t.Errorf("%s is called %q, want %q", key, got, want)
		}
	}
	job := corebot.Key{
		Agent: "main", Channel: corebot.JobChannel, Account: "webhook:", Chat: "c1", Thread: "7:t1",
	}
	if got := chatName(job.String()); got != "job 7 · c1 / t1" {
		t.Errorf("a child turn is called %q", got)
	}
	for p, want := range map[corebot.Principal]string{
		{Channel: "console", Account: "local", ID: "0"}: "you", {Channel: "webhook", ID: "ann"}: "ann", {}: "",
		{Channel: "cli", Account: "local", ID: "0"}:      "user 0 of cli",
		{Channel: "telegram", Account: "main", ID: "42"}: "user 42 of telegram",
	} {
		if got := sender(p); got != want {
			t.Errorf("%v is called %q, want %q", p, got, want)
		}
	}
}

func TestBrowsersHaveNames(t *testing.T) {
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
		"Safari/537.36"
	for agent, want := range map[string]string{
		chrome:                 "Chrome on Linux",
		chrome + " Edg/140.0":  "Edge on Linux",
		"curl/8.14.1":          "curl/8.14.1",
		"":                     "",
		"Mozilla/5.0 <script>": "Mozilla/5.0 <script>",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) Gecko/20100101 Firefox/140.0": "Firefox on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/18.0 Mobile/15E148 Safari/604.1": "Safari on iPhone",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%q is called %q, want %q", agent, got, want)
		}
	}
}
