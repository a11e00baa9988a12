package builtin

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/tools"
)

var (
	//go:embed wait_until.md
	waitUntilDoc string
	//go:embed wait_open.md
	waitOpenDoc string
	//go:embed wait_word.md
	waitWordDoc string
)

// WaitOptions bound what calls wait for.
type WaitOptions struct {
	Zone    string // of times that name none
	Longest time.Duration
	Limits  corebot.WaitLimits
	Webhook bool // programs can give a word by HTTP
}

// Waits are the tools whose calls wait in their place.
func Waits(o WaitOptions) []tools.Tool { return []tools.Tool{waitUntil(o), waitOpen(o), waitWord(o)} }

type waitUntilArgs struct {
	Time     string `json:"time,omitempty" jsonschema:"18:30, 2026-12-24T18:00 or 2026-12-24T18:00:00+01:00"`
	Duration string `json:"duration,omitempty" jsonschema:"such as 90s or 2h; either this or time"`
	For      string `json:"for,omitempty" jsonschema:"what you wait for, in a few words for people"`
}

func waitUntil(o WaitOptions) tools.Tool {
	return tools.NewWaiting("wait.until", waitUntilDoc, 0, func(_ context.Context, _ tools.Call,
		a waitUntilArgs,
	) (w tools.Wait, err error) {
		now := time.Now()
		if w.Pending, err = o.wait(a.For); err != nil {
			return w, err
		}
		switch {
		case (a.Time == "") == (a.Duration == ""):
			err = corebot.WithHint(fmt.Errorf("%w: want a time or a duration", corebot.ErrInvalid),
				"give exactly one of them")
		case a.Duration != "":
			w.Kind = corebot.WaitSpan
			var span time.Duration
			span, err = o.span(a.Duration)
			w.Until = now.Add(span)
		default:
			w.Kind = corebot.WaitTime
			w.Until, err = o.moment(a, now)
		}
		return w, err
	})
}

// wait is a wait without its kind and its time.
func (o WaitOptions) wait(purpose string) (corebot.Pending, error) {
	w := corebot.Pending{State: corebot.WaitAwaited, For: strings.TrimSpace(purpose), Limits: o.Limits}
	return w, w.Validate()
}

// span reads a duration; empty is the longest.
func (o WaitOptions) span(s string) (time.Duration, error) {
	if s == "" {
		return o.Longest, nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, corebot.WithHint(fmt.Errorf("%w: %q is no duration", corebot.ErrInvalid, s),
			"write it as 90s, 10m or 2h")
	case d < time.Second:
		return 0, corebot.WithHint(fmt.Errorf("%w: a wait of %s", corebot.ErrInvalid, s), "wait 1s at least")
	case d > o.Longest:
		return 0, o.tooLong(s)
	}
	return d, nil
}

// tooLong refuses to hold a chat for longer than the operator allows.
func (o WaitOptions) tooLong(what string) error {
	return corebot.WithHint(fmt.Errorf("%w: a wait of %s; a call can wait %v at most", corebot.ErrInvalid, what,
		o.Longest), "tasks.schedule does something later and holds no chat; waits.max_time is the limit")
}

func (o WaitOptions) moment(a waitUntilArgs, now time.Time) (time.Time, error) {
	if _, err := time.ParseDuration(a.Time); err == nil {
		return time.Time{}, corebot.WithHint(fmt.Errorf("%w: %q is a duration", corebot.ErrInvalid, a.Time),
			"give it as duration")
	}
	at, err := scheduler.When(strings.TrimSpace(a.Time), o.Zone, now)
	if err == nil && at.Sub(now) > o.Longest {
		err = o.tooLong(at.Sub(now).Round(time.Minute).String())
	}
	return at, err
}

type waitOpenArgs struct {
	For    string `json:"for" jsonschema:"what the word is about, in a few words for people"`
	Within string `json:"within,omitempty" jsonschema:"until when it can come, such as 2h"`
}

func waitOpen(o WaitOptions) tools.Tool {
	return tools.NewWaiting("wait.open", waitOpenDoc, 0, func(_ context.Context, _ tools.Call,
		a waitOpenArgs,
	) (tools.Wait, error) {
		w, err := o.word(a.For, a.Within)
		key := rand.Text()
		w.State, w.Secret = corebot.WaitOpen, corebot.HashKey(key)
		return tools.Wait{Pending: w, Opened: func(w corebot.Pending) string { return o.opened(w, key) }}, err
	})
}

// word is a wait for a word.
func (o WaitOptions) word(purpose, within string) (corebot.Pending, error) {
	w, err := o.wait(purpose)
	if err != nil {
		return w, err
	}
	span, err := o.span(within)
	w.Kind, w.Until = corebot.WaitWord, time.Now().Add(span)
	return w, err
}

// opened tells the model how a word is given.
func (o WaitOptions) opened(w corebot.Pending, key string) string {
	text := fmt.Sprintf("wait %d is open until %s; wait.word with this id waits for its word. ", w.ID,
		w.Until.UTC().Format("Mon 2006-01-02 15:04:05 MST"))
	if o.Webhook {
		text += fmt.Sprintf("A program gives the word once: POST /webhook/resume/%d at the address of Corebot's "+
			"webhook, with the header Authorization, the scheme Bearer and the key %s. The body is empty, or "+
			`{"text": "..."}. `, w.ID, key)
	}
	return text + fmt.Sprintf("A person gives it with /resume %d TEXT in this chat, and a program of this machine "+
		"with `corebot resume %d TEXT`.", w.ID, w.ID)
}

type waitWordArgs struct {
	ID     int64  `json:"id,omitempty" jsonschema:"of a wait that wait.open has opened in this turn"`
	For    string `json:"for,omitempty" jsonschema:"of a new wait: what the word is about, in a few words for people"`
	Within string `json:"within,omitempty" jsonschema:"of a new wait: until when it can come, such as 2h"`
}

func waitWord(o WaitOptions) tools.Tool {
	return tools.NewWaiting("wait.word", waitWordDoc, 0, func(_ context.Context, _ tools.Call,
		a waitWordArgs,
	) (tools.Wait, error) {
		switch {
		case a.ID < 0:
			return tools.Wait{}, fmt.Errorf("%w: id %d: want the number of a wait", corebot.ErrInvalid, a.ID)
		case a.ID > 0 && (a.For != "" || a.Within != ""):
			return tools.Wait{}, corebot.WithHint(fmt.Errorf("%w: wait %d has its purpose and its time already",
				corebot.ErrInvalid, a.ID), "give the id alone")
		}
		w, err := o.word(a.For, a.Within)
		w.ID = a.ID
		return tools.Wait{Pending: w}, err
	})
}
