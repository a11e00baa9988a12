package storage

import "github.com/corebot/corebot"

// undelivered parts time by claims: a reply that died before this claim, and not before that of the turn that wrote the chat's newest
// history, has been told to no turn yet. Claims and deaths have the writer's clock, so each death falls between two claims.
var undelivered = &query{`SELECT m.id, m.message_id, m.kind, m.checksum, m.reason, m.last_error, m.ended_at, m.body
	FROM lanes l CROSS JOIN message_life m INDEXED BY message_life_dead_of_lane ON m.lane_id = l.id
	WHERE m."end" = 'dead' AND m.ended_at < ?1 AND m.ended_at >= COALESCE((
		SELECT p.claimed_at FROM message_life p JOIN lanes i ON i.id = p.lane_id
		WHERE i.direction = 1 AND i.agent = ?2 AND i.channel = ?3 AND i.account = ?4 AND i.chat = ?5 AND i.thread = ?6 AND p.message_id = (
			SELECT h.message_id FROM chats c JOIN history h ON h.chat_id = c.id
			WHERE c.agent = ?2 AND c.channel = ?3 AND c.account = ?4 AND c.chat = ?5 AND c.thread = ?6 AND h.speaker = 'user'
			ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT 1)), 0)
	AND m.kind = 'reply'
	AND l.direction = 2 AND l.agent = ?2 AND l.channel = ?3 AND l.account = ?4 AND l.chat = ?5 AND l.thread = ?6
	ORDER BY m.ended_at DESC LIMIT ?7 + 0`}

// undeliveredOf gives the replies of a chat that were given up and that no turn before this claim has heard of, newest first, at most
// limit of them. The last turn that left history counts as having heard; one that failed does not.
func undeliveredOf(c *prepared, d corebot.Delivery, limit int) ([]corebot.Life, error) {
	k := d.Message.Key
	var out []corebot.Life
	err := c.each(undelivered, func(s scanner) error {
		life := corebot.Life{Direction: corebot.Outbound, Key: k, End: corebot.EndDead}
		var kind string
		var sum, body []byte
		err := s.Scan(&life.ID, &life.MessageID, &kind, &sum, &life.Reason, &life.LastError, moment{&life.EndedAt}, &body)
		if err != nil {
			return err
		}
		life.Kind = corebot.Kind(kind)
		if m, err := unpack(body, life.Direction, k, life.Kind, sum); err == nil { // a damaged one is told without its text
			life.Message = &m
		}
		out = append(out, life)
		return nil
	}, d.ClaimedAt, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	return out, err
}
