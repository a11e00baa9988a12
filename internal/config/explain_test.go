package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryValueSaysWhereItComesFrom(t *testing.T) {
	clean(t)
	t.Setenv("OPENAI_MODEL", "common")
	t.Setenv("COREBOT_BUS_LEASE", "90s")
	t.Setenv("KEY", "hunter2-hunter2")
	t.Setenv("COREBOT_OBSERVABILITY_TOKEN", "hunter2-hunter2")
	home := homeWith(t, "corebot.yaml", "llm: {model: below, api_key: env:KEY}\nbus: {max_attempts: 7}\nwebhook: "+
		"{callback_url: 'https://me:hunter2@example.com/a?key=hunter2'}")
	file := filepath.Join(home, "corebot.yaml")
	e, err := Explain(home)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Values) != len(leaves()) {
		t.Errorf("%d values of %d settings", len(e.Values), len(leaves()))
	}
	for _, want := range []Value{
		{"llm.model", "common", FromEnvironment, "OPENAI_MODEL", ""},
		{"llm.api_key", NewSecret("hunter2-hunter2"), FromFile, file, "env:KEY"},
		{"bus.lease", "1m30s", FromEnvironment, "COREBOT_BUS_LEASE", ""},
		{"bus.max_attempts", 7, FromFile, file, ""},
		{"bus.lane_depth", int64(1000), FromDefault, "", ""},
		{"webhook.token", Secret{}, FromDefault, "", ""},
		{"webhook.callback_url", "https://***@example.com/a?***", FromFile, file, ""},
		{"observability.token", NewSecret("hunter2-hunter2"), FromEnvironment, "COREBOT_OBSERVABILITY_TOKEN", ""},
	} {
		if !slices.Contains(e.Values, want) {
			t.Errorf("no %+v in %+v", want, e.Values)
		}
	}
	if text, err := json.Marshal(e); err != nil || strings.Contains(string(text[strings.Index(string(text),
		`"Values"`):]), "hunter2") {
		t.Errorf("a secret shows: %s, %v", text, err)
	}
}

func TestAnAddressIsShownWithoutWhatMayBeSecretInIt(t *testing.T) {
	for value, want := range map[any]any{
		"http://127.0.0.1:1/v1": "http://127.0.0.1:1/v1", "https://u@host/v1": "https://***@host/v1",
		"https://u:p@host/v%201#f": "https://***@host/v%201?***",
		"https://host?key=x":       "https://host?***", "plain": "plain", "127.0.0.1:0": "127.0.0.1:0", 7: 7,
		true:        true,
		time.Minute: "1m",
	} {
		if got := shown(value); got != want {
			t.Errorf("%v shows as %v, want %v", value, got, want)
		}
	}
}

func TestADurationIsWrittenAsShortAsItIsRead(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 10 * time.Second: "10s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m",
		time.Hour:        "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 168 * time.Hour: "168h",
		10*time.Hour + 10*time.Minute: "10h10m",
	} {
		got := durationText(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v is written %q, want %q; read again %v, %v", d, got, want, back, err)
		}
	}
}

func TestADifferenceIsAppliedOrNeedsARestart(t *testing.T) {
	var reloadable, restart []string
	for _, l := range leaves() {
		fresh := Defaults()
		fresh.Home = "/elsewhere" // is no setting
		l.put(&fresh, another(t, l, ""))
		apply, wait := Diff(Defaults(), fresh)
		if changed := slices.Concat(apply, wait); !slices.Equal(changed, []string{l.key}) {
			t.Errorf("%s changed, and the difference is %q and %q", l.key, apply, wait)
		}
		reloadable, restart = append(reloadable, apply...), append(restart, wait...)
	}
	if want := []string{
		"llm.base_url", "llm.api_key", "llm.model", "llm.offline", "llm.discover", "llm.timeout",
		"llm.first_byte_timeout", "llm.idle_timeout",
		"llm.vision", "llm.providers", "llm.prices", "llm.breaker_failures",
		"llm.breaker_cool_down", "llm.context_tokens", "llm.output_tokens",
		"audit.publish_every", "audit.verify_every", "audit.file", "audit.url", "audit.token",
		"retention.messages", "retention.usage", "retention.audit", "retention.history", "retention.history_entries",
		"retention.versions", "budget.chat_daily_tokens", "budget.chat_daily_cost", "budget.principal_daily_tokens",
		"budget.principal_daily_cost", "budget.role_normal_daily_tokens", "budget.role_normal_daily_cost",
		"budget.role_admin_daily_tokens", "budget.role_admin_daily_cost", "budget.total_daily_tokens",
		"budget.total_daily_cost", "webhook.token", "webhook.secret", "observability.token",
		"log.level",
	}; !slices.Equal(reloadable, want) {
		t.Errorf("what can be applied is %q, want %q", reloadable, want)
	}
	_, everything := everySetting(t)
	apply, wait := Diff(Defaults(), everything)
	if !slices.Equal(apply, reloadable) || !slices.Equal(wait, restart) {
		t.Errorf("of everything: %q and %q", apply, wait)
	}
	if apply, wait := Diff(everything, everything); apply != nil || wait != nil {
		t.Errorf("of nothing: %q and %q", apply, wait)
	}
}

func TestTheTagsOfEverySettingAreWellFormed(t *testing.T) {
	for _, s := range sections() {
		if !strings.HasSuffix(s.doc, ".") {
			t.Errorf("%s: %q is not a sentence", s.name, s.doc)
		}
		for _, l := range s.leaves {
			field := fieldOf(l)
			if l.doc == "" || strings.HasSuffix(l.doc, ".") || strings.Contains(l.doc, "|") {
				t.Errorf("%s: %q is not a line of a table", l.key, l.doc)
			}
			if _, has := field.Tag.Lookup("min"); has && l.least == nil {
				t.Errorf("%s: min does not fit the type", l.key)
			}
			if text, has := field.Tag.Lookup("reload"); has && text != "yes" {
				t.Errorf("%s: reload is %q", l.key, text)
			}
			if err := l.check(l.standard); err != nil {
				t.Errorf("the default of %s: %v", l.key, err)
			}
		}
	}
}

// TestEverySettingIsLiveOrNeedsARestart: each setting that changes by itself is named, in one of two lists. A live one
// is taken over, and all others stay.
func TestEverySettingIsLiveOrNeedsARestart(t *testing.T) {
	_, all := everySetting(t)
	before, live := Defaults(), Live()
	changed := 0
	for _, l := range leaves() {
		if l.in(&all) == l.in(&before) {
			continue // of the home, or without another value
		}
		changed++
		after := before
		l.put(&after, l.in(&all))
		taken, restart := Diff(before, after)
		want := [][]string{{l.key}, nil}
		if !slices.Contains(live, l.key) {
			slices.Reverse(want)
		}
		if !slices.Equal(taken, want[0]) || !slices.Equal(restart, want[1]) {
			t.Errorf("%s: taken %v, needs a restart %v", l.key, taken, restart)
		}
		now, _ := before.WithLive(after)
		if took := l.in(&now) == l.in(&after); took != l.reload || (now == before) == l.reload {
			t.Errorf("%s is marked as live: %v, and was taken: %v", l.key, l.reload, took)
		}
		row := lineWith(page(), "| `"+l.key+"` |")
		if row == "" || strings.Contains(row, "*reload*") != l.reload {
			t.Errorf("%s is marked as live: %v, and the page says %q", l.key, l.reload, row)
		}
	}
	if n := len(leaves()); changed < n*9/10 {
		t.Errorf("only %d of %d settings were changed", changed, n)
	}
}

// lineWith is the first line of a text with a part; empty: there is none.
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

func TestLiveSettingsMustFitThoseThatNeedARestart(t *testing.T) {
	fresh := Defaults()
	fresh.Retention.Messages, fresh.Bus.DedupeTTL = 2*24*time.Hour, 24*time.Hour
	if _, err := Defaults().WithLive(fresh); err == nil || !strings.Contains(err.Error(), "bus.dedupe_ttl") {
		t.Errorf("ids would be forgotten too early: %v", err)
	}
}
