package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

var (
	laneByID = &query{`SELECT direction, agent, channel, account, chat, thread, leased, waiting, past FROM lanes WHERE id = ?`}
	// LENGTH of a body reads nothing of it.
	headOnly = &query{`SELECT q.life_id, q.seq, LENGTH(q.body) FROM message_queue q WHERE q.lane_id = ? AND q.seq > ? ORDER BY q.seq LIMIT 1`}
	lifeName = &query{`SELECT message_id FROM message_life WHERE id = ?`}
	// Of a lane that has lost rows: what has not ended, and is nowhere.
	lostLives = &query{`SELECT m.id FROM message_life m LEFT JOIN message_queue q ON q.life_id = m.id LEFT JOIN message_parked p ON p.life_id = m.id
		WHERE m.lane_id = ? AND m."end" = '' AND q.life_id IS NULL AND p.life_id IS NULL ORDER BY m.id LIMIT ? + 0`}
	endUnread = &query{`UPDATE message_life SET "end" = 'dead', reason = '` + corebot.ReasonDamaged + `', last_error = ?, ended_at = ? WHERE id = ?`}
	// The lane's own counts may be wrong when rows are missing: they are made anew.
	passLane = &query{`UPDATE lanes SET past = MAX(past, ?), epoch = epoch + 1, leased = 0, attempts = 0, lost = 0, lost_at = 0, waiting = '',
		depth = (SELECT COUNT(*) FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq > MAX(lanes.past, ?1)),
		bytes = (SELECT COALESCE(SUM(LENGTH(q.body)), 0) FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq > MAX(lanes.past, ?1)),
		wake_at = CASE WHEN EXISTS (SELECT 1 FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq > MAX(lanes.past, ?1)) THEN ? END
		WHERE id = ?`}
	countLane = &query{`SELECT depth, bytes FROM lanes WHERE id = ?`}
)

// GiveUp ends what is at the head of a lane that is set aside as a dead letter without content, tells the chat, and has the lane go on. The
// unreadable row stays where it is: to delete it would be to believe what its damaged page says of other pages. It gives the message's
// life and id, which are unknown if the life cannot be read either. A lane that is not set aside is [corebot.ErrNotFound].
func (l *DeadLetters) GiveUp(ctx context.Context, lane int64) (given corebot.Origin, err error) {
	for _, named := range []bool{true, false} { // SQLite commits nothing after it has met a damaged page: the second try leaves the life alone
		err = l.db.write(ctx, "give-up", func(t *tx) error {
			g := giving{lane: lane, named: named}
			err := l.giveUpTx(t, &g)
			given = g.Origin
			return err
		})
		if _, damaged := asSQLite(err); !damaged || !ofTheFile(err) {
			return given, err
		}
	}
	return given, corebot.WithHint(fmt.Errorf("give up the message at the head of lane %d: %w", lane, err), repairHint)
}

// giving is what a lane is to go on without.
type giving struct {
	corebot.Origin
	lane      int64
	named     bool // the life of the message can be read and written
	direction corebot.Direction
	key       corebot.Key
	past      int64
	why       string
}

func (l *DeadLetters) giveUpTx(t *tx, g *giving) error {
	if err := l.asideTx(t, g); err != nil {
		return err
	}
	lives, err := g.headTx(t)
	if err != nil {
		return err
	}
	var before, after totals
	if err := g.countTx(t, &before); err != nil {
		return err
	}
	for _, life := range lives {
		if err := g.endTx(t, life); err != nil {
			return err
		}
	}
	if _, err := t.exec(passLane, g.past, t.now, g.lane); err != nil {
		return err
	}
	if err := letGoTx(t, g.lane); err != nil {
		return err
	}
	if err := g.countTx(t, &after); err != nil {
		return err
	}
	if err := g.makeRoomTx(t, lives, before.bytes-after.bytes); err != nil {
		return err
	}
	t.total.depth[g.direction] += after.depth[g.direction] - before.depth[g.direction]
	t.total.bytes += after.bytes - before.bytes
	t.wake(corebot.PoolOf(g.direction, g.key), t.now.UnixMilli())
	t.readmitted = append(t.readmitted, g.lane)
	d := letter{id: g.Life, direction: g.direction, key: g.key, messageID: g.MessageID, reason: corebot.ReasonDamaged}
	if err := l.auditTx(t, d, "give_up", map[string]any{"lane": g.lane}); err != nil {
		return err
	}
	if g.direction != corebot.Inbound {
		return nil // the chat's next turn is told what became of its reply
	}
	return noticeTx(t, &pack([]corebot.Message{g.notice()})[0], g.Life)
}

// makeRoomTx takes what is given up from what waits of its sender. Nobody knows whose a message without a readable life was.
func (g *giving) makeRoomTx(t *tx, lives []int64, bytes int64) error {
	if g.direction != corebot.Inbound || !g.named {
		return nil
	}
	for _, life := range lives {
		if err := t.waiting.addLife(t, life, -1, int(bytes)/len(lives)); err != nil {
			return err
		}
	}
	return nil
}

// asideTx finds the lane, if it is set aside.
func (l *DeadLetters) asideTx(t *tx, g *giving) error {
	var leased bool
	var waiting string
	var direction int
	k := &g.key
	found, err := t.one(laneByID, []any{&direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &leased, &waiting, &g.past}, g.lane)
	if err != nil {
		return err
	}
	g.direction = corebot.Direction(direction)
	for _, a := range l.db.aside.all() {
		if a.Lane == g.lane {
			waiting, g.why = corebot.Unreadable, a.Error
		}
	}
	if !found || leased || waiting != corebot.Unreadable {
		return corebot.WithHint(fmt.Errorf("lane %d is not set aside: %w", g.lane, corebot.ErrNotFound), "`corebot status` lists the lanes that are")
	}
	return nil
}

// headTx gives the lives that end: of the head, or, in a lane that has lost its messages, of those.
func (g *giving) headTx(t *tx) (lives []int64, err error) {
	var life, size int64
	found, err := t.one(headOnly, []any{&life, &g.past, &size}, g.lane, g.past)
	if err != nil || found {
		g.Life = life
		return []int64{life}, err
	}
	err = t.each(lostLives, func(s scanner) error {
		var life int64
		err := s.Scan(&life)
		lives = append(lives, life)
		return err
	}, g.lane, changeChunk)
	if len(lives) > 0 {
		g.Life = lives[0]
	}
	return lives, err
}

func (g *giving) endTx(t *tx, life int64) error {
	if !g.named {
		g.Life = 0
		return nil
	}
	if _, err := t.exec(endUnread, errorText(g.why), t.now, life); err != nil {
		return err
	}
	if life == g.Life {
		if _, err := t.one(lifeName, []any{&g.MessageID}, life); err != nil {
			return err
		}
	}
	return endCallsTx(t, life)
}

// countTx reads what waits in the lane by its own count.
func (g *giving) countTx(t *tx, c *totals) error {
	_, err := t.one(countLane, []any{&c.depth[g.direction], &c.bytes}, g.lane)
	return err
}

func (g *giving) notice() corebot.Message {
	text := "A message of this chat cannot be read any more and was given up by an operator. If you still wait for an answer, please send it again."
	if g.MessageID != "" {
		text = fmt.Sprintf("What is stored of message %s cannot be read any more: please send it again.", g.MessageID)
	}
	return corebot.Message{
		ID: corebot.OwnID("lane", g.lane, g.past), Direction: corebot.Outbound, Key: g.key, Kind: corebot.KindNotice,
		Parts: corebot.TextPart(text), InReplyTo: g.MessageID,
	}
}

// errorText bounds what a life keeps of an error.
func errorText(s string) string { return s[:min(len(s), 500)] }

// errUnreadable refuses to replay what is not there any more.
var errUnreadable = corebot.WithHint(errors.New("what was sent cannot be read any more"), "have it sent again, and drop this one")
