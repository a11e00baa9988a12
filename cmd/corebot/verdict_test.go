package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// verdict is what the program left behind when everything was over.
type verdict struct {
	Lost          int // accepted messages without a reply
	DoubleReplies int
	Inversions    int // replies that came before an older one of their chat
	Notes         int // side effects that happened once
	DoubleNotes   int // that happened again
	MissingNotes  int // that never happened, though nobody called them unknown
	UnknownNotes  int // cut off between intent and outcome: not repeated, by design
	DeadLetters   int // messages that were given up
}

func (v verdict) wrong() bool {
	return v.Lost+v.DoubleReplies+v.Inversions+v.DoubleNotes+v.MissingNotes+v.DeadLetters > 0
}

// inspect reads every reply and every note again.
func (s *siege) inspect(ctx context.Context, c *load.Client, messages int) verdict {
	s.t.Helper()
	v := verdict{DeadLetters: strings.Count(s.output("dlq", "list", "--json"), "\n")}
	unknown := s.output("audit", "--json", "--outcome", "unknown", "--limit", "1000000")
	notes := s.notes()
	for chat := range siegeChats {
		each := messages / siegeChats
		if chat < messages%siegeChats {
			each++
		}
		name := fmt.Sprintf("chat-%d", chat)
		seen, last := map[int]int{}, -1
		for _, r := range s.replies(ctx, c, name) {
			n, err := strconv.Atoi(strings.TrimPrefix(r.InReplyTo, name+"-message-"))
			if err != nil {
				s.t.Errorf("a reply to nothing: %+v", r)
				continue
			}
			if seen[n]++; n < last {
				v.Inversions++
			}
			last = n
		}
		for n := range each {
			v.count(seen[n], fmt.Sprintf("%s-message-%d", name, n), notes, unknown)
		}
	}
	return v
}

// count adds one message.
func (v *verdict) count(replies int, id string, notes []byte, unknown string) {
	switch {
	case replies == 0:
		v.Lost++
	case replies > 1:
		v.DoubleReplies++
	}
	if !takesNote(id) {
		return
	}
	note := fmt.Sprintf(noteText, id)
	cut := strings.Contains(unknown, strconv.Quote(note))
	if cut {
		v.UnknownNotes++
	}
	switch n := bytes.Count(notes, []byte(note)); {
	case n > 1:
		v.DoubleNotes++
	case n == 1:
		v.Notes++
	case !cut:
		v.MissingNotes++
	}
}

// replies are all of a chat.
func (s *siege) replies(ctx context.Context, c *load.Client, chat string) (all []load.Reply) {
	s.t.Helper()
	for after := ""; ; {
		page, next, err := c.Replies(ctx, chat, after, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all, after = append(all, page...), next
	}
}

// notes is the memory of all chats.
func (s *siege) notes() (all []byte) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.home, "workspace", "chats", "*", "MEMORY.md"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range files {
		page, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, page...)
	}
	return all
}

// quantile of durations; 0 of none.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// report makes a table of the figures.
func (s *siege) report(v verdict, callers load.Report, took time.Duration) {
	s.t.Helper()
	// of fewer, it is the slowest alone
	if p99 := quantile(s.readies, 0.99); len(s.readies) >= 100 && p99 > maxReadyP99 {
		s.t.Errorf("ready again: p99 is %v, want %v at most", p99, maxReadyP99)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(what string, value any) { _, _ = fmt.Fprintf(w, "%s\t%v\n", what, value) }
	row(s.what, fmt.Sprintf("%d times in %v", s.cycles, took.Round(time.Second)))
	row("accepted messages", callers.Messages)
	row("posts that had to be tried again", callers.Retries)
	row("database whole", fmt.Sprintf("%d of %d", s.checks, s.cycles))
	row("lost messages", v.Lost)
	row("double replies", v.DoubleReplies)
	row("order inversions", v.Inversions)
	row("side effects done", v.Notes)
	row("side effects doubled", v.DoubleNotes)
	row("side effects missing", v.MissingNotes)
	row("side effects unknown, by design", v.UnknownNotes)
	row("dead letters", v.DeadLetters)
	row("ready again, p50 / p99", fmt.Sprint(quantile(s.readies, 0.5).Round(time.Millisecond), " / ",
		quantile(s.readies, 0.99).Round(time.Millisecond)))
	if len(s.exits) > 0 {
		row("exit after SIGTERM, p50 / max", fmt.Sprint(quantile(s.exits, 0.5).Round(time.Millisecond), " / ",
			quantile(s.exits, 1).Round(time.Millisecond)))
	}
	_ = w.Flush() // into memory: cannot fail
	s.tell(b.String())
}

// tell writes a table to the log of the test, and to a file if one is wanted.
func (s *siege) tell(table string) {
	s.t.Helper()
	s.t.Logf("\n%s", table)
	if *siegeReport == "" {
		return
	}
	f, err := os.OpenFile(*siegeReport, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(table + "\n")
	}
	if err != nil {
		s.t.Errorf("write the report: %v", err)
		return
	}
	if err := f.Close(); err != nil {
		s.t.Errorf("write the report: %v", err)
	}
}
