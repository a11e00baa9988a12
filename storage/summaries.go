package storage

import (
	"context"

	"github.com/corebot/corebot"
)

var (
	selectSummary = &query{`SELECT s.session, s.through, s.text, s.model, s.at FROM summaries s JOIN chats c ON c.id = s.chat_id AND c.session = s.session
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`}
	// A summary that reaches no further than the stored one changes nothing.
	putSummary = &query{`INSERT INTO summaries (chat_id, session, through, text, model, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (chat_id) DO UPDATE SET session = excluded.session, through = excluded.through, text = excluded.text, model = excluded.model,
		  at = excluded.at WHERE (excluded.session, excluded.through) > (summaries.session, summaries.through)`}
)

// Summary is what stands for the older part of a chat's session; the zero Summary if nothing does.
func (h *History) Summary(ctx context.Context, k corebot.Key) (s corebot.Summary, err error) {
	err = h.db.reader.use(ctx, func(c *prepared) (err error) {
		s, err = summaryOf(c, k)
		return err
	})
	return s, err
}

func summaryOf(c *prepared, k corebot.Key) (s corebot.Summary, err error) {
	err = c.each(selectSummary, func(row scanner) error {
		return row.Scan(&s.Session, &s.Through, &s.Text, &s.Model, moment{&s.At})
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return s, err
}

// Summarize stores a summary of a chat's session and the step that made it, in one commit: after a crash both are there, or neither. It
// covers history and takes none of it away. Storing the same range again changes nothing, and so does one that is behind the stored one. A
// worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Summarize(ctx context.Context, d corebot.Delivery, step corebot.Step, s corebot.Summary) error {
	return l.step(ctx, d, step, func(t *tx) error {
		chat, err := chatTx(t, d.Message.Key)
		if err != nil {
			return err
		}
		_, err = t.exec(putSummary, chat.ID, s.Session, s.Through, s.Text, s.Model, t.now)
		return err
	})
}
