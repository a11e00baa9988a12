package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// functions are what templates can call.
var functions = template.FuncMap{
	"asset": assetPath, "ago": ago, "until": until, "due": due, "when": when, "moment": moment,
	"plain": corebot.Plainly, "lined": lined, "args": indented,
	"path": url.PathEscape, "clip": clip, "number": number, "lines": strings.Split, "join": strings.Join,
	"oneStep": func(s operate.Step) []operate.Step { return []operate.Step{s} }, "lastLine": lastLine, "newest": newest,
	"diff": diffRows, "chatName": chatName,
	"money": money, "sender": sender, "browser": browserName, "word": word, "took": took,
	"dict": dict, "nonzero": nonzero,
}

// shownText bounds a text on a page with others, in bytes.
const shownText = 8 << 10

// clip shortens a text for a page, to at most n bytes as HTML spells them.
func clip(n int, text string) string {
	for i, r := range text {
		if n -= spelled(r); n < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// spelled is how many bytes HTML takes for a character.
func spelled(r rune) int {
	switch r {
	case '"', '&', '\'', '+':
		return len("&#34;")
	case '<', '>':
		return len("&lt;")
	case utf8.RuneError, 0: // also for a byte that is no character
		return len("\uFFFD")
	}
	return utf8.RuneLen(r)
}

// nonzero says whether there is such a time.
func nonzero(t time.Time) bool { return !t.IsZero() }

// took is a time between two moments, as people say it.
func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	d := to.Sub(from)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return span(d)
}

// ago says how long ago a moment was.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "never"
	case d < 0:
		return "in " + span(-d)
	case d < 5*time.Second:
		return "now"
	}
	return span(d) + " ago"
}

// until says how long it is until a moment.
func until(t time.Time) string {
	d := time.Until(t)
	if d <= 0 {
		return "now"
	}
	return "in " + span(d)
}

// due says when the wait of a message ends. Where something else than time can end the wait, there is nothing to say:
// the time is only when Corebot looks again.
func due(state string, at time.Time) string {
	kind, why, _ := strings.Cut(state, ": ")
	switch {
	case at.IsZero(), kind != "waiting" && kind != "deferred",
		why == corebot.AwaitingApproval, why == corebot.AwaitingWord, why == corebot.AwaitingJob:
		return ""
	case why == "backoff":
		return "tried again " + until(at)
	}
	return "goes on " + until(at)
}

// span is a duration in its largest unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= u.of {
			return fmt.Sprintf("%d %s", d/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d s", max(d/time.Second, 1))
}

// when is a moment for people: without the date if it is of today.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	t = t.Local()
	layout := "2006-01-02 15:04"
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		layout = "15:04:05"
	}
	return t.Format(layout)
}

// moment is a moment for programs.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// number groups the digits of a number.
func number(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// money is an amount that fits into a tile or a column. An amount of one unit or more has two digits behind the point.
// A smaller one has the first three that count.
func money(m corebot.Money) string {
	switch digits, unit := 0, corebot.Money(1); {
	case m >= 1_000_000:
		m = (m + 5_000) / 10_000 * 10_000
	default:
		for n := m; n > 0; n /= 10 {
			digits++
		}
		for range digits - 3 {
			unit *= 10
		}
		m = (m + unit/2) / unit * unit
	}
	return m.String()
}

// sender is who has sent a message, for the owner of the home.
func sender(p corebot.Principal) string {
	if p.Channel == corebot.ConsoleChannel {
		return "you"
	}
	if _, err := strconv.ParseUint(p.ID, 10, 64); err == nil { // a number alone tells nobody who that is
		return "user " + p.ID + " of " + p.Channel
	}
	return corebot.Plainly(p.ID)
}

// browserName is what people call a browser that names itself as browsers do, with the names of all others in front.
func browserName(agent string) string {
	of := func(names ...string) string {
		for _, name := range names {
			if mark, called, _ := strings.Cut(name, "="); strings.Contains(agent, mark) {
				return cmp.Or(called, strings.TrimSuffix(mark, "/"))
			}
		}
		return ""
	}
	program := of("Edg/=Edge", "OPR/=Opera", "SamsungBrowser/=Samsung Internet", "Firefox/", "FxiOS/=Firefox",
		"Chrome/", "CriOS/=Chrome", "Safari/")
	system := of("iPhone", "iPad", "Android", "Windows", "CrOS=ChromeOS", "Mac OS X=macOS", "Linux")
	if !strings.HasPrefix(agent, "Mozilla/") || program == "" || system == "" {
		return clip(80, corebot.Plainly(agent))
	}
	return program + " on " + system
}

// indented is JSON over several lines, with what a person cannot see written out.
func indented(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) == nil {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if e.Encode(v) == nil {
			raw = json.RawMessage(strings.TrimSpace(b.String()))
		}
	}
	return lined(string(raw))
}

// lined is a text of several lines, with what a person cannot see written out.
func lined(text string) string {
	rows := strings.Split(text, "\n")
	for i, row := range rows {
		rows[i] = corebot.Plainly(row)
	}
	return strings.Join(rows, "\n")
}

// diffRow is a row of a diff, with the class of its look.
type diffRow struct{ Class, Text string }

func diffRows(diff string) (rows []diffRow) {
	for row := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		class := ""
		switch {
		case strings.HasPrefix(row, "+"):
			class = "add"
		case strings.HasPrefix(row, "-"):
			class = "del"
		case strings.HasPrefix(row, "@@"), strings.HasPrefix(row, `\`):
			class = "note"
		}
		rows = append(rows, diffRow{class, row})
	}
	return rows
}

// chatName is how people know a chat: without the parts of its key that are as everywhere.
func chatName(key string) string {
	k, err := corebot.ParseKey(key)
	if err != nil {
		return key
	}
	name := k.Channel + " · " + corebot.Plainly(k.Chat)
	if k.Channel == corebot.ConsoleChannel {
		name = corebot.Plainly(k.Chat)
	} else if acts := k.Acts(); acts != k { // a child turn, whose thread begins with the number of its job
		number, _, _ := strings.Cut(k.Thread, ":")
		name, k.Thread = "job "+corebot.Plainly(number)+" · "+corebot.Plainly(acts.Chat), acts.Thread
	}
	if k.Thread != "" {
		name += " / " + corebot.Plainly(k.Thread)
	}
	if k.Agent != corebot.DefaultAgent {
		name = corebot.Plainly(k.Agent) + " · " + name
	}
	return clip(120, name)
}

// word is the class of a state: what it is about in one of four looks.
func word(state string) string {
	switch {
	case strings.HasPrefix(state, "running"), state == "success", state == "answered", state == "approved",
		state == "sent", state == "connected", state == "ready", state == "done", state == "usable", state == "active":
		return "good"
	case strings.HasPrefix(state, "waiting"), strings.HasPrefix(state, "deferred"), state == "awaiting",
		state == "paused", state == "intended", state == "connecting", state == "missing", state == "merged":
		return "wait"
	case state == "dead", state == "error", state == "denied", state == "failed", state == "broken", state == "unknown",
		state == "invalid_args", state == "expired", state == "down":
		return "bad"
	}
	return "calm"
}

// dict makes arguments of a template by their names.
func dict(pairs ...any) map[string]any {
	all := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		all[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return all
}

// lastLine is the number of the last line of a piece of memory.
func lastLine(p operate.MemoryPiece) int {
	return p.Line + max(strings.Count(strings.TrimSuffix(p.Text, "\n"), "\n"), 0)
}

// newest are the last samples, the newest first.
func newest(all []corebot.Sample) []corebot.Sample {
	last := slices.Clone(all[max(len(all)-20, 0):])
	slices.Reverse(last)
	return last
}
