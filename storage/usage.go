package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// maxModelName bounds the booked model names in bytes, because the provider chooses them.
const maxModelName = 100

var (
	bookDay = &query{`INSERT INTO usage_days (day, agent, key, channel, account, sender, model,
		  turns, input, output, cache_read, cache_write, cost, unpriced, estimated)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (day, key, channel, account, sender, model) DO UPDATE SET
		  turns = usage_days.turns + excluded.turns, input = usage_days.input + excluded.input,
		output = usage_days.output + excluded.output,
		  cache_read = usage_days.cache_read + excluded.cache_read,
		cache_write = usage_days.cache_write + excluded.cache_write,
		  cost = usage_days.cost + excluded.cost, unpriced = usage_days.unpriced + excluded.unpriced,
		  estimated = usage_days.estimated + excluded.estimated`}
	bookLife = &query{`UPDATE message_life SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,
		cost = cost + ?, unpriced = unpriced + ?,
		estimated = estimated + ? WHERE id = ?`}
	hasStep = &query{`SELECT 1 FROM execution_steps WHERE life_id = ? AND run = ? AND position = ?`}
)

// bookTx adds the usage of model calls to their day, and returns the sum for the life of the message. turns is 1 if the
// calls end a turn.
func (l *Ledger) bookTx(t *tx, d *corebot.Delivery, spent []corebot.ModelUsage, turns int64) (
	sum corebot.UsageTotals, err error,
) {
	books := l.db.accounting.Load()
	for _, s := range spent {
		u := books.Book(s)
		u.Turns, turns = turns, 0
		k, p := d.Message.Key.Acts(), d.Message.Sender
		_, err := t.exec(bookDay, books.Day(t.now), k.Agent, k.String(), p.Channel, p.Account, p.ID, modelName(s.Model),
			u.Turns, u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, int64(u.Cost),
			u.UnpricedTokens, u.EstimatedTokens)
		if err != nil {
			return sum, err
		}
		sum = sum.Add(u)
	}
	countUseTx(t, d.Message.Key.Agent, sum)
	return sum, nil
}

// SetPrices changes what the tokens of models cost from now on. What is booked stays.
func (d *DB) SetPrices(prices corebot.Prices) {
	a := *d.accounting.Load()
	a.Prices = prices
	d.accounting.Store(&a)
}

// modelName is a model's name as it is booked.
func modelName(s string) string {
	if len(s) > maxModelName {
		s = s[:maxModelName]
	}
	return strings.ToValidUTF8(s, "?")
}

// bookStepTx books the answer of a step when the step is recorded for the first time. A turn that resumes from its
// journal finds it counted. Call it before the step is recorded.
func (l *Ledger) bookStepTx(t *tx, d *corebot.Delivery, s corebot.Step) error {
	if s.Answer == nil || s.Answer.Usage == (corebot.Usage{}) && len(s.Answer.Failed) == 0 {
		return nil
	}
	var one int64
	if known, err := t.one(hasStep, []any{&one}, d.Life, d.Run, s.Position); err != nil || known {
		return err
	}
	spent := append(slices.Clone(s.Answer.Failed), corebot.ModelUsage{Model: s.Answer.Model, Usage: s.Answer.Usage})
	use, err := l.bookTx(t, d, spent, 0)
	if err != nil {
		return err
	}
	return bookLifeTx(t, d.Life, use)
}

func bookLifeTx(t *tx, life int64, u corebot.UsageTotals) error {
	if u == (corebot.UsageTotals{}) {
		return nil
	}
	_, err := t.exec(bookLife, u.InputTokens, u.OutputTokens, int64(u.Cost), u.UnpricedTokens, u.EstimatedTokens, life)
	return err
}

// Books reads the booked usage.
type Books struct{ db *DB }

// NewBooks are the books of a database.
func NewBooks(db *DB) *Books { return &Books{db} }

const useSums = `SELECT COALESCE(SUM(u.turns), 0), COALESCE(SUM(u.input), 0), COALESCE(SUM(u.output), 0),
	COALESCE(SUM(u.cache_read), 0),
	COALESCE(SUM(u.cache_write), 0), COALESCE(SUM(u.cost), 0), COALESCE(SUM(u.unpriced), 0),
	COALESCE(SUM(u.estimated), 0)
	FROM usage_days u WHERE u.day BETWEEN ? AND ?`

var (
	useOfAll       = &query{useSums}
	useOfChat      = &query{useSums + ` AND u.key = ?`}
	useOfAgent     = &query{useSums + ` AND u.agent = ?`}
	useOfPrincipal = &query{useSums + ` AND u.channel = ? AND u.account = ? AND u.sender = ?`}
	// The present grants say who is an admin, as [Grants.RoleOf] does: in the thread, in its chat, or everywhere. The
	// key of a thread is that of its chat, a colon and the thread.
	useOfRole = &query{useSums + ` AND ? = (u.sender <> '' AND COALESCE((SELECT g.role FROM grants g WHERE g.channel =
		u.channel AND g.account = u.account AND g.sender = u.sender
		AND (g.scope IN ('', u.key) OR substr(u.key, 1, length(g.scope) + 1) = g.scope || ':')
		ORDER BY length(g.scope) DESC LIMIT 1), '') = 'admin')`}
)

// Use adds up the usage that a filter selects. A filter names at most one of agent, chat, principal and role.
func (b *Books) Use(ctx context.Context, f corebot.UsageFilter) (u corebot.UsageTotals, err error) {
	q, args := useOfAll, []any{f.From, f.To}
	switch {
	case f.Chat != (corebot.Key{}):
		q, args = useOfChat, append(args, f.Chat.String())
	case f.Agent != "":
		q, args = useOfAgent, append(args, f.Agent)
	case f.Principal != (corebot.Principal{}):
		q, args = useOfPrincipal, append(args, f.Principal.Channel, f.Principal.Account, f.Principal.ID)
	case f.Role != "":
		q, args = useOfRole, append(args, f.Role == corebot.RoleAdmin)
	}
	_, err = b.db.reader.one(ctx, q, useColumns(&u), args...)
	return u, err
}

func useColumns(u *corebot.UsageTotals) []any {
	return []any{
		&u.Turns, &u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, (*int64)(&u.Cost),
		&u.UnpricedTokens, &u.EstimatedTokens,
	}
}

var listDays = &query{`SELECT turns, input, output, cache_read, cache_write, cost, unpriced, estimated, day, key,
	channel, account, sender, model
	FROM usage_days WHERE day BETWEEN ? AND ? AND (? = '' OR day < ?
	OR (key, channel, account, sender, model) > (?, ?, ?, ?, ?))
	ORDER BY day DESC, key, channel, account, sender, model LIMIT ? + 0`}

// Page gives what was used from one day to another, both included, behind a cursor, newest day first, at most limit
// rows, and the cursor behind them.
func (b *Books) Page(ctx context.Context, from, to, after string,
	limit int,
) (out []corebot.UsageRow, next string, err error) {
	var day, chat, model string
	var who corebot.Principal
	if err := behind(after, "usage", &day, &chat, &who.Channel, &who.Account, &who.ID, &model); err != nil {
		return nil, "", err
	}
	if day != "" {
		to = min(to, day)
	}
	err = b.db.reader.each(ctx, listDays, func(s scanner) error {
		var row corebot.UsageRow
		p := &row.Principal
		columns := append(useColumns(&row.UsageTotals), &row.Day, &row.Chat, &p.Channel, &p.Account, &p.ID, &row.Model)
		err := s.Scan(columns...)
		out = append(out, row)
		return err
	}, from, to, day, day, chat, who.Channel, who.Account, who.ID, model, limit)
	return out, nextPage(out, limit, func(u corebot.UsageRow) string {
		return cursor("usage", u.Day, u.Chat, u.Principal.Channel, u.Principal.Account, u.Principal.ID, u.Model)
	}), err
}

// usageBy are the sums by name.
var usageBy = map[string]*query{
	"day": usageSums("day", "name DESC"), "chat": usageSums("key", largestUse), "model": usageSums("model", largestUse),
}

const largestUse = `SUM(u.cost) DESC, SUM(u.input) + SUM(u.output) DESC, name`

func usageSums(column, order string) *query {
	return &query{strings.Replace(useSums, "SELECT ", "SELECT u."+column+" AS name, ", 1) +
		` GROUP BY name ORDER BY ` + order + ` LIMIT ? + 0`}
}

// Sums adds up what was used from one day to another, both included, by day, chat or model. It gives at most limit
// names: days with the newest first, and chats and models with the largest cost first. more says that there are others.
func (b *Books) Sums(ctx context.Context, by, from, to string,
	limit int,
) (out []corebot.UsageSum, more bool, err error) {
	q := usageBy[by]
	if q == nil {
		return nil, false, fmt.Errorf("%w: usage is added up by day, chat or model, not by %q", corebot.ErrInvalid, by)
	}
	err = b.db.reader.each(ctx, q, func(s scanner) error {
		var row corebot.UsageSum
		err := s.Scan(append([]any{&row.Name}, useColumns(&row.UsageTotals)...)...)
		out = append(out, row)
		return err
	}, from, to, limit+1)
	if more = len(out) > limit; more {
		out = out[:limit]
	}
	return out, more, err
}

// maxSumNames bounds what is kept in memory while usage is added up: it is a tenth of a gigabyte at most.
const maxSumNames = 100_000

var useRows = &query{`SELECT turns, input, output, cache_read, cache_write, cost, unpriced, estimated, day, key, model
	FROM usage_days WHERE day BETWEEN ? AND ?`}

// SumsByAll gives what [Books.Sums] gives by day, chat and model, and reads each row once. Behind 100,000 names of
// one kind, what is left has one name, "others".
func (b *Books) SumsByAll(ctx context.Context, from, to string,
	limit int,
) (by map[string][]corebot.UsageSum, more bool, err error) {
	kinds := [...]string{"day", "chat", "model"}
	var sums [len(kinds)]map[string]*corebot.UsageTotals
	for i := range sums {
		sums[i] = map[string]*corebot.UsageTotals{}
	}
	err = b.db.reader.each(ctx, useRows, func(s scanner) error {
		var u corebot.UsageTotals
		var names [len(kinds)]string
		if err := s.Scan(append(useColumns(&u), &names[0], &names[1], &names[2])...); err != nil {
			return err
		}
		for i, name := range names {
			sum := sums[i][name]
			if sum == nil && len(sums[i]) >= maxSumNames {
				name, more = "others", true
				sum = sums[i][name]
			}
			if sum == nil {
				sum = new(corebot.UsageTotals)
				sums[i][name] = sum
			}
			*sum = sum.Add(u)
		}
		return ctx.Err()
	}, from, to)
	by = map[string][]corebot.UsageSum{}
	for i, kind := range kinds {
		rows := make([]corebot.UsageSum, 0, len(sums[i]))
		for name, u := range sums[i] {
			rows = append(rows, corebot.UsageSum{Name: name, UsageTotals: *u})
		}
		slices.SortFunc(rows, largestFirst)
		if kind == "day" {
			slices.SortFunc(rows, func(a, b corebot.UsageSum) int { return strings.Compare(b.Name, a.Name) })
		}
		if len(rows) > limit {
			rows, more = slices.Clip(rows[:limit]), true
		}
		by[kind] = rows
	}
	return by, more, err
}

// largestFirst is the order of largestUse.
func largestFirst(a, b corebot.UsageSum) int {
	return cmp.Or(cmp.Compare(b.Cost, a.Cost),
		cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens), strings.Compare(a.Name, b.Name))
}

// sessionMessages bounds how many messages of a session are added up.
const sessionMessages = 10_000

var useOfSession = &query{`SELECT COUNT(*), COALESCE(SUM(m.input_tokens), 0), COALESCE(SUM(m.output_tokens), 0), 0, 0,
	COALESCE(SUM(m.cost), 0), COALESCE(SUM(m.unpriced), 0), COALESCE(SUM(m.estimated), 0)
	FROM (SELECT DISTINCT h.message_id AS id FROM chats c JOIN history h ON h.chat_id = c.id AND h.session = c.session
	  WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? LIMIT ? + 0) AS said
	JOIN lanes l ON l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
	JOIN message_life m ON m.message_id = said.id AND m.lane_id = l.id`}

// OfSession adds up what the messages of a chat's session have used. Retention forgets messages: their use is in the
// days, and no longer here.
func (b *Books) OfSession(ctx context.Context, k corebot.Key) (u corebot.UsageTotals, err error) {
	_, err = b.db.reader.one(ctx, useOfSession, useColumns(&u), k.Agent, k.Channel, k.Account, k.Chat, k.Thread,
		sessionMessages, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return u, err
}

// settleTurnTx ends a claim and books what it spent beside its journal.
func (l *Ledger) settleTurnTx(t *tx, d *corebot.Delivery, r corebot.Result) error {
	turns := int64(0)
	if r.Outcome.Verb == corebot.Done {
		turns = 1
	}
	spent := r.Spent
	if turns == 1 && len(spent) == 0 && r.Model != "" { // such as the offline model, which uses nothing
		spent = []corebot.ModelUsage{{Model: r.Model}}
	}
	if len(spent) > 0 { // a stale claim books nothing; without anything to book the settle finds out by itself
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
	}
	use, err := l.bookTx(t, d, spent, turns)
	if err != nil {
		return err
	}
	return settleUseTx(t, d, r.Outcome, used{use, modelName(r.Model)})
}

// deletedChat is the name under which usage of deleted chats is summed up.
const deletedChat = "deleted"

var (
	// The usage of the chat stays in the sums of its days, under a name that is nobody's.
	sumUsage = &query{`INSERT INTO usage_days (day, agent, key, channel, account, sender, model,
		  turns, input, output, cache_read, cache_write, cost, unpriced, estimated)
		SELECT day, agent, ?, '', '', '', model,
		  turns, input, output, cache_read, cache_write, cost, unpriced, estimated FROM usage_days WHERE key = ?
		ON CONFLICT (day, key, channel, account, sender, model) DO UPDATE SET
		  turns = usage_days.turns + excluded.turns, input = usage_days.input + excluded.input,
		output = usage_days.output + excluded.output,
		  cache_read = usage_days.cache_read + excluded.cache_read,
		cache_write = usage_days.cache_write + excluded.cache_write,
		  cost = usage_days.cost + excluded.cost, unpriced = usage_days.unpriced + excluded.unpriced,
		  estimated = usage_days.estimated + excluded.estimated`}
	forgetUsage = &query{`DELETE FROM usage_days WHERE key = ?`}
)

// forgetUsageTx takes the key of a deleted chat out of the usage.
func forgetUsageTx(t *tx, k corebot.Key) error {
	nobodys := corebot.Key{Agent: k.Agent, Channel: deletedChat, Chat: deletedChat}.String()
	if _, err := t.exec(sumUsage, nobodys, k.String()); err != nil {
		return err
	}
	_, err := t.exec(forgetUsage, k.String())
	return err
}
