package storage

import (
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// A sender has a rate of turns, over all chats. It refuses nothing: what comes faster waits. Lanes of a sender whose rate is used up are held
// back, as those of one who has turns enough, and each moment of the rate puts one in line. So thousands of lanes wait without a claim that
// looks at them. Where a sender has no id, the chat is the principal: its lane waits by itself.
//
// The rate is kept in memory. Another process reads from the lives when the latest turns began.

// senderAlone is a sender whatever the chat.
func senderAlone(p corebot.Principal) speaker {
	return speaker{corebot.Key{Channel: p.Channel, Account: p.Account}, p.ID}
}

// speaker is whose rate a claimed message counts for.
func (c *claimed) speaker() speaker {
	if c.sender.ID == "" {
		return speaker{chat: c.key}
	}
	return senderAlone(c.sender)
}

// countsForRate says whether the turn of a head is a new one that its rate can delay. A stop waits for nobody.
func (c *claimed) countsForRate() bool { return !c.hasBegun() && c.stopSeq < c.seq }

// begin notes that a turn of a sender begins.
func (f *flows) begin(c *claimed, now time.Time, terms corebot.Terms) {
	if terms.Sender.Every > 0 && c.countsForRate() && !terms.Owns(c.key) {
		f.begun.take(c.speaker(), now, terms.Sender)
	}
}

// allowed is when the rate of a sender allows a turn more besides some that are about to begin.
func (f *flows) allowed(s speaker, besides int, now time.Time, terms corebot.Terms) int64 {
	if terms.Sender.Every <= 0 || terms.Owns(s.chat) {
		return 0
	}
	at := f.begun.freeAt(s)
	for range besides {
		at = nextFree(at, now, terms.Sender)
	}
	return at
}

// nextAllowed is when the first sender whose lanes are held back can have another turn by his rate, of those who have not turns enough.
func (f *flows) nextAllowed(now time.Time, terms corebot.Terms) int64 {
	next := int64(math.MaxInt64)
	if terms.Turns == 0 || terms.Sender.Every <= 0 {
		return next
	}
	for who := range f.stalled {
		if f.room(who, 0, 0, terms.Turns) {
			next = min(next, f.allowed(senderAlone(who), 0, now, terms))
		}
	}
	return next
}

// recalledLives bounds the newest messages from which another process learns how fast senders were.
const recalledLives = 20_000

var (
	throttleLane = &query{`UPDATE lanes SET wake_at = ?, held_for = NULL, waiting = '` + corebot.Paced + `' WHERE id = ?`}
	latestTurns  = &query{`SELECT l.agent, l.channel, l.account, l.chat, l.thread, m.sender, m.claimed_at
		FROM (SELECT lane_id, sender, claimed_at, "end" FROM message_life ORDER BY id DESC LIMIT ? + 0) m JOIN lanes l ON l.id = m.lane_id
		WHERE l.direction = ? AND m.claimed_at > ? AND m."end" <> '` + string(corebot.EndMerged) + `'`}
)

// recall learns from the lives how fast senders were before this process, once. What cannot be read is left out: then some senders can have
// their burst again.
func (w *writer) recall(terms corebot.Terms) {
	rate := terms.Sender
	if w.recalled || terms.Turns == 0 || rate.Every <= 0 || w.ready() != nil {
		return
	}
	w.recalled = true
	type turn struct {
		whose speaker
		at    int64
	}
	var turns []turn
	now := w.db.clock.now()
	err := w.conn.each(latestTurns, func(s scanner) error {
		var c claimed
		var at int64
		k := &c.key
		err := s.Scan(&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &c.sender.ID, &at)
		c.sender.Channel, c.sender.Account = k.Channel, k.Account
		turns = append(turns, turn{c.speaker(), at})
		return err
	}, recalledLives, int64(corebot.Inbound), now.Add(-time.Duration(rate.Burst)*rate.Every))
	if err != nil {
		w.forgetPages()
		w.db.log.Warn().Err(classify(err)).Msg("how fast senders were before could not be read: their rates begin anew")
	}
	slices.SortFunc(turns, func(a, b turn) int { return int(a.at - b.at) })
	for _, t := range turns {
		w.flows.begun.take(t.whose, time.UnixMilli(min(t.at, now.UnixMilli())), rate)
	}
	w.flows.commit()
}
