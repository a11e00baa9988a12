package mail

import (
	"mime"
	"strings"
	"sync"
	"time"
)

// automatic says why a mail is one of a program; empty: a person may have written it. Such a mail is never answered, so
// that no two programs write each other for ever (RFC 3834). Feedback-ID is no such sign: Proton and Fastmail put it on
// every mail of a person. docs/channels.md lists the signs.
func automatic(h header, from address) string {
	if s := word1(h.text("auto-submitted")); s != "" && s != "no" {
		return "Auto-Submitted"
	}
	switch word1(h.text("precedence")) {
	case "bulk", "junk", "list", "auto_reply":
		return "Precedence"
	}
	for _, f := range h {
		switch {
		case strings.HasPrefix(f.name, "list-") && f.name != "list-unsubscribe-post":
			return "a mailing list"
		case f.name == "x-autoreply", f.name == "x-autorespond", f.name == "x-auto-reply",
			f.name == "x-mail-autoreply", f.name == "x-failed-recipients":
			return f.name
		}
	}
	for s := range strings.SplitSeq(strings.ToLower(h.text("x-auto-response-suppress")), ",") {
		switch strings.TrimSpace(s) {
		case "all", "autoreply", "oof":
			return "X-Auto-Response-Suppress"
		}
	}
	if path, there := h.get("return-path"); there && strings.Trim(path, " <>") == "" {
		return "an empty Return-Path"
	}
	switch media, params, _ := mime.ParseMediaType(h.text("content-type")); {
	case media == "multipart/report":
		return "a report " + clean(params["report-type"])
	case media == "message/delivery-status", media == "message/disposition-notification":
		return "a report"
	}
	local, _, _ := strings.Cut(from.local, "+")
	switch bare := strings.NewReplacer("-", "", "_", "", ".", "").Replace(local); {
	case bare == "mailerdaemon", bare == "postmaster", bare == "noreply", bare == "donotreply", bare == "bounce",
		bare == "bounces", bare == "listserv", bare == "majordomo", strings.HasPrefix(local, "owner-"),
		strings.HasSuffix(local, "-request"), strings.HasPrefix(bare, "bounces"):
		return "the address of a program"
	}
	return ""
}

// word1 is the first word of a field, in lower case, without its parameters.
func word1(value string) string {
	value, _, _ = strings.Cut(strings.ToLower(value), ";")
	value, _, _ = strings.Cut(value, "(")
	return strings.TrimSpace(value)
}

// skipped counts mails that were left out, for one line in the log each hour.
type skipped struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// note says how many mails the log has to tell of now; zero: none.
func (s *skipped) note(now time.Time) (tell int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if age := now.Sub(s.since); s.since.IsZero() || age >= time.Hour || age < 0 {
		tell, s.n, s.since = s.n, 0, now
	}
	return tell
}
