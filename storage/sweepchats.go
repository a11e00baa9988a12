package storage

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// chatOver says of a chat c, made before a moment, that nothing refers to it and that nobody has set anything in it.
const chatOver = `c.created_at < ? AND c.registered = 0 AND c.display_name = '' AND c.queue_mode = '' AND c.access = ''
	AND (c.model = '' OR c.model_session <> c.session)
	AND NOT EXISTS (SELECT 1 FROM history h WHERE h.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM mailbox b WHERE b.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM summaries s WHERE s.chat_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.direction IN (1, 2, 3) AND l.agent = c.agent AND l.channel = c.channel
	  AND l.account = c.account AND l.chat = c.chat AND l.thread = c.thread)`

var (
	overPage = &query{`SELECT c.id, ` + chatOver + `, c.agent, c.channel, c.account, c.chat, c.thread FROM chats c
		WHERE c.id > ? ORDER BY c.id LIMIT ? + 0`}
	dropChat = &query{`DELETE FROM chats AS c WHERE c.id = ? AND ` + chatOver + ` AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.scope = ? AND g.scope <> '')`}
)

// sweepChats forgets chats that nobody uses any more. One that comes back begins as a new one, under another id.
func (r *Retention) sweepChats(ctx context.Context, before time.Time) error {
	return r.chats.pass(ctx, r, newestChat, func(after int64) (rows int, last int64, err error) {
		over := map[int64]string{} // ids, and how their keys are spelled
		err = r.db.reader.each(ctx, overPage, func(s scanner) error {
			var k corebot.Key
			var this bool
			err := s.Scan(&last, &this, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
			if rows++; this && err == nil && !r.hasFiles(k) {
				over[last] = k.String()
			}
			return err
		}, before, after, sweepRows)
		if err != nil || len(over) == 0 {
			return rows, last, err
		}
		return rows, last, r.drop(ctx, "chats", func(t *tx) (gone int64, err error) {
			for id, spelled := range over {
				n, err := t.exec(dropChat, id, before, spelled)
				if err != nil {
					return gone, err
				}
				gone += n
			}
			return gone, nil
		})
	})
}

func (r *Retention) hasFiles(k corebot.Key) bool { return r.opts.HasFiles != nil && r.opts.HasFiles(k) }
