package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Lot is where messages are parked, for those who look after it.
type Lot struct{ db *DB }

// NewLot is the lot of a database.
func NewLot(db *DB) *Lot { return &Lot{db} }

var (
	listParked = &query{`SELECT p.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender, p.reason, p.parked_at, p.due_at
		FROM message_parked p JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id ORDER BY p.due_at, p.life_id LIMIT ? + 0`}
	releaseParked = &query{`UPDATE message_parked SET due_at = ? WHERE life_id = ? AND due_at > ?`}
)

// List gives parked messages in the order in which they come back, at most limit.
func (l *Lot) List(ctx context.Context, limit int) ([]corebot.Parked, error) {
	var out []corebot.Parked
	err := l.db.reader.each(ctx, listParked, func(s scanner) error {
		var p corebot.Parked
		k := &p.Key
		err := s.Scan(&p.Life, &p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &p.Sender.ID, &p.Reason, moment{&p.ParkedAt}, moment{&p.DueAt})
		p.Sender.Channel, p.Sender.Account = k.Channel, k.Account
		out = append(out, p)
		return err
	}, limit)
	return out, err
}

// Release has a parked message come back now, before its time. Whether it may be answered is asked again when it is claimed. One that is
// not parked is [corebot.ErrNotFound].
func (l *Lot) Release(ctx context.Context, life int64) error {
	return l.db.write(ctx, "release", func(t *tx) error {
		if _, _, parked, err := isParkedTx(t, life); err != nil || !parked {
			return notParked(life, err)
		}
		t.backAt = min(t.backAt, t.now.UnixMilli())
		_, err := t.exec(releaseParked, t.now, life, t.now)
		return err
	})
}

// Drop gives a parked message up for good, with a note in the audit, and tells its chat. One that is not parked is [corebot.ErrNotFound].
func (l *Lot) Drop(ctx context.Context, life int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		p, err := parkedTx(t, life)
		if err != nil {
			return err
		}
		if _, err := endParkedTx(t, life, corebot.EndDropped, "dropped"); err != nil {
			return err
		}
		dropped := corebot.AuditEvent{
			At: t.now, Event: "parked.drop", Key: p.Key, Entry: corebot.EntryOperator, Principal: byOperator().Principal,
			Outcome: corebot.OutcomeSuccess, Args: fmt.Sprintf(`{"id":%d}`, life),
		}
		if err := auditTx(t, []corebot.AuditEvent{dropped}); err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{droppedNotice(p)})[0], life)
	})
}

func droppedNotice(p corebot.Parked) corebot.Message {
	return corebot.Message{
		ID: p.MessageID + "/dropped", Direction: corebot.Outbound, Key: p.Key, Kind: corebot.KindNotice, InReplyTo: p.MessageID,
		Parts: corebot.TextPart("This message waited for the budget and was dropped by an operator. Please send it again if it still matters."),
	}
}

var parkedByLife = &query{`SELECT m.message_id, l.agent, l.channel, l.account, l.chat, l.thread FROM message_parked p
	JOIN lanes l ON l.id = p.lane_id JOIN message_life m ON m.id = p.life_id WHERE p.life_id = ?`}

func parkedTx(t *tx, life int64) (corebot.Parked, error) {
	p := corebot.Parked{Life: life}
	k := &p.Key
	found, err := t.one(parkedByLife, []any{&p.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread}, life)
	if err == nil && !found {
		err = notParked(life, nil)
	}
	return p, err
}

func notParked(life int64, err error) error {
	if err == nil {
		err = fmt.Errorf("parked message %d: %w", life, corebot.ErrNotFound)
	}
	return err
}
