package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

var (
	selectDead = &query{`SELECT l.direction, l.agent, l.channel, l.account, l.chat, l.thread,
		m.message_id, m.run, m.kind, m.checksum, m.body, m.reason, m.last_error, m.attempt_log, m.ended_at
		FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ? AND m."end" = 'dead'`}
	dropLife = &query{`UPDATE message_life SET "end" = 'dropped', reason = ?, ended_at = ?, body = NULL WHERE id = ? AND "end" = 'dead'`}
)

// letter is a dead letter as a change of it needs it.
type letter struct {
	id             int64
	direction      corebot.Direction
	key            corebot.Key
	messageID      string
	run            int
	kind           corebot.Kind
	checksum, body []byte
	reason, failed string
	attemptLog     string
	diedAt         time.Time
}

// letterTx reads a dead letter, or gives [corebot.ErrNotFound].
func letterTx(t *tx, id int64) (letter, error) {
	d := letter{id: id}
	var direction int
	var kind string
	k := &d.key
	found, err := t.one(selectDead, []any{
		&direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
		&d.messageID, &d.run, &kind, &d.checksum, &d.body, &d.reason, &d.failed, &d.attemptLog,
		moment{&d.diedAt},
	}, id)
	if err == nil && !found {
		err = fmt.Errorf("dead letter %d: %w", id, corebot.ErrNotFound)
	}
	d.direction, d.kind = corebot.Direction(direction), corebot.Kind(kind)
	return d, err
}

// Drop gives up a dead letter for good: its content goes, its life stays until retention takes it.
func (l *DeadLetters) Drop(ctx context.Context, id int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		return l.dropTx(t, d, dropping{"drop", "dropped"}, nil)
	})
}

// dropping is a way to end a dead letter: what the audit calls it, and the reason that its life keeps.
type dropping struct{ change, reason string }

// dropTx ends a dead letter. detail is what the audit should know beside it.
func (l *DeadLetters) dropTx(t *tx, d letter, how dropping, detail map[string]any) error {
	if _, err := t.exec(dropLife, how.reason, t.now, d.id); err != nil {
		return err
	}
	return l.auditTx(t, d, how.change, detail)
}

// changeChunk bounds how many letters one commit changes, and with it how long the others that write are held up.
const changeChunk = 50

// Purge drops every dead letter that the filter means and says how many. They go in small commits: an error leaves those that went
// before gone. A letter that died after Purge was called stays. What it would drop is what [DeadLetters.List] gives.
func (l *DeadLetters) Purge(ctx context.Context, f corebot.DeadLetterFilter) (dropped int, err error) {
	began := time.Now()
	ids, err := l.ids(ctx, f)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(ids, changeChunk) {
		n := 0
		err := l.db.write(ctx, "purge", func(t *tx) error {
			n = 0
			for _, id := range chunk {
				d, found, err := stillDeadTx(t, id, began)
				if err == nil && found {
					n++
					err = l.dropTx(t, d, dropping{"purge", "purged"}, nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return dropped, fmt.Errorf("%d dropped, then: %w", dropped, err)
		}
		dropped += n
	}
	return dropped, nil
}

// auditTx notes what was done to a letter, and by whom.
func (l *DeadLetters) auditTx(t *tx, d letter, change string, detail map[string]any) error {
	note := map[string]any{"id": d.id, "messageId": d.messageID, "direction": d.direction.String(), "chat": d.key.String(), "reason": d.reason}
	for name, value := range detail {
		note[name] = value
	}
	args, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the audit note of dead letter %d: %w", d.id, err)
	}
	e := l.by
	if e.Key == (corebot.Key{}) {
		e.Key = d.key
	}
	e.Event, e.Outcome, e.Args = "dead_letter."+change, corebot.OutcomeSuccess, string(args)
	return auditTx(t, []corebot.AuditEvent{e})
}
