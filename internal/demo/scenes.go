package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/corebot/corebot/internal/load"
)

// messages posts many messages twice each, and kills Corebot while they come.
func (d *demo) messages(ctx context.Context) (s Scene, err error) {
	const messages, chats, before = 24, 4, 8
	s.Promise = "Accepted means on disk. One id, one turn, one reply. Order per chat."
	s.Did = fmt.Sprintf("Posted %d messages of %d chats to the webhook, each twice at once.\n"+
		"Killed Corebot (kill -9) after %d of them, and started it again.", messages, chats, before)
	soon, enough := context.WithCancel(ctx)
	defer enough()
	posted := make(chan error, 1)
	var report load.Report
	go func() {
		var err error
		report, err = load.Run(ctx, d.client, load.Options{
			Messages: messages, Chats: chats, Copies: 2, Prefix: "burst-",
			Accepted: func(n int) {
				if n == before {
					enough()
				}
			},
		})
		posted <- err
	}()
	<-soon.Done()
	if err := errors.Join(d.restart(ctx), <-posted); err != nil {
		return s, fmt.Errorf("%d messages, each twice: %w", messages, err)
	}
	for n := range chats {
		d.said["burst-chat-"+strconv.Itoa(n)] = messages / chats
	}
	s.Counts = []Count{
		{"posts acknowledged, copies included", 2 * messages, report.Posts},
		{"messages with exactly one reply, in the order of their chat", messages, report.Replies},
	}
	return s, nil
}

// deadLetter has a model refuse its key, and replays what became of the message.
func (d *demo) deadLetter(ctx context.Context) (s Scene, err error) {
	const chat, id = "letters", "lost-1"
	s.Promise = "No silent end."
	s.Did = "Started Corebot with a model that refuses the key, and sent a message. Gave it the offline " +
		"model again,\n" +
		"and replayed the message: corebot dlq replay."
	refuse, err := refusingModel()
	if err != nil {
		return s, err
	}
	defer refuse.Close() //nolint:errcheck // nothing is under way
	d.model = []string{"OPENAI_BASE_URL=" + refuse.URL, "OPENAI_API_KEY=wrong"}
	if err := d.restart(ctx); err != nil {
		return s, err
	}
	if _, err := d.client.Post(ctx, load.Message{ID: id, ChatID: chat, Sender: chat, Content: "hello"}); err != nil {
		return s, err
	}
	told, err := d.replies(ctx, chat, 1)
	if err != nil {
		return s, err
	}
	dead, err := d.deadLetters(ctx)
	if err != nil {
		return s, err
	}
	d.model = []string{offline}
	if err := d.restart(ctx); err != nil {
		return s, err
	}
	if len(dead) == 1 {
		if _, err := d.run(ctx, "dlq", "replay", strconv.FormatInt(dead[0].ID, 10)); err != nil {
			return s, err
		}
	}
	after, err := d.replies(ctx, chat, len(told)+1)
	if err != nil {
		return s, err
	}
	left, err := d.deadLetters(ctx)
	d.said[chat] = 2
	s.Counts = []Count{
		{"dead letter, which the operator finds with corebot dlq list", 1, len(dead)},
		{"notice in the chat that its message failed", 1, len(told)},
		{"reply after the replay", 1, len(after) - len(told)},
		{"dead letters left", 0, len(left)},
	}
	return s, err
}

// everyRow is a limit above all rows that a demonstration can make.
const everyRow = "10000"

type letter struct{ ID int64 }

func (d *demo) deadLetters(ctx context.Context) ([]letter, error) {
	return rows[letter](ctx, d.program, "dlq", "list", "--json")
}

// books looks at everything once more, after all kills.
func (d *demo) books(ctx context.Context) (s Scene, err error) {
	s.Promise = "The books agree after all that."
	s.Did = "Read every chat again from its first message, checked the chain of the audit trail (corebot audit " +
		"verify)\n" +
		"and the whole database file (corebot db check)."
	want, got := 0, 0
	for chat, n := range d.said {
		all, err := d.replies(ctx, chat, 0)
		if err != nil {
			return s, err
		}
		want, got = want+n, got+len(all)
	}
	type trail struct{ Events int }
	verified, err := rows[trail](ctx, d.program, "audit", "verify", "--json")
	if err != nil {
		return s, err
	}
	if _, err := d.run(ctx, "db", "check"); err != nil {
		return s, err
	}
	events, err := rows[struct{}](ctx, d.program, "audit", "--json", "--decisions", "--limit", everyRow)
	unbroken := 0
	for _, v := range verified {
		unbroken += v.Events
	}
	s.Counts = []Count{
		{"replies and notices in all chats", want, got},
		{"events of the audit trail in an unbroken chain", len(events), unbroken},
	}
	return s, err
}
