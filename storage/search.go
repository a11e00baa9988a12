package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/internal/terms"
)

// searched is how much of an entry a search can find: its beginning, in bytes.
const searched = 64 << 10

// saidAloud selects the entries that a search finds: what people and the agent said. Results of tools are left out,
// because a search would find the results of earlier searches again and again.
const saidAloud = `h.speaker IN ('user', 'assistant') AND h.text <> ''`

var (
	chatNumber = &query{
		`SELECT id FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`,
	}
	indexed = &query{`SELECT through FROM history_indexed WHERE id = 1`}
	// The entries that are not indexed yet, newest first.
	unindexed = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.id > ? AND +h.chat_id = ? AND ` +
		saidAloud + ` ORDER BY h.id DESC`}
	spokenInTurn = &query{`SELECT sender, outside FROM history
		WHERE chat_id = ? AND session = ? AND seq = ? AND speaker = 'user'`}
	// The chat is a part of every term. The second condition on the chat is a second wall.
	searchNewest = &query{searchIndex + `ORDER BY f.rowid DESC LIMIT ? + 0`}
	searchBest   = &query{searchIndex + `ORDER BY f.rank, f.rowid DESC LIMIT ? + 0`}
)

const searchIndex = `SELECT ` + historyColumns +
	` FROM history_terms f JOIN history h ON h.id = f.rowid WHERE history_terms MATCH ? AND h.chat_id = ? `

// Search finds entries of a chat, in all its sessions. It returns the newest entries that have all phrases of a query,
// newest first. If there are none, whole is false, and found are the entries with the most of its terms. It finds at
// most limit entries. Of each entry only the first 64 KiB count. A turn can be found as soon as it has ended, indexed
// or not.
func (h *History) Search(ctx context.Context, k corebot.Key, q terms.Query,
	limit int,
) (found []corebot.HistoryEntry, whole bool, err error) {
	s := search{History: h, key: k, query: q, limit: limit}
	known, err := h.db.reader.one(ctx, chatNumber, []any{&s.chat}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || !known || len(q.Phrases) == 0 || limit < 1 {
		return nil, true, err
	}
	hits, err := s.all(ctx)
	if err != nil || len(hits) > 0 {
		return entriesOf(hits), true, err
	}
	hits, err = s.some(ctx)
	return entriesOf(hits), false, err
}

// Sources says of entries of a chat, each by its place, who has spoken in the turn that said it. A person's message is
// his alone. An answer is of all who have spoken in its turn. An answer whose turn nobody knows any more is of nobody.
func (h *History) Sources(ctx context.Context, k corebot.Key, found []corebot.HistoryEntry) ([]corebot.Sources, error) {
	var chat int64
	if _, err := h.db.reader.one(ctx, chatNumber, []any{&chat}, keyArgs(k)...); err != nil {
		return nil, err
	}
	all := make([]corebot.Sources, len(found))
	for i, e := range found {
		all[i].Add(e)
		if e.Speaker == corebot.SpeakerUser {
			continue
		}
		if err := h.db.reader.each(ctx, spokenInTurn, func(row scanner) error {
			said := corebot.HistoryEntry{Speaker: corebot.SpeakerUser}
			err := row.Scan(&said.Sender.ID, &said.Outside)
			said.Sender = senderIn(k, said.Sender.ID)
			all[i].Add(said)
			return err
		}, chat, e.Session, e.Seq); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// search is one search while it runs.
type search struct {
	*History
	key   corebot.Key
	chat  int64
	query terms.Query
	limit int
}

// hit is a found entry.
type hit struct {
	corebot.HistoryEntry
	place
	phrases int // how many phrases of the query it has
}

// byAge sorts hits by their places in the chat.
func byAge(a, b hit) int {
	return cmp.Or(cmp.Compare(b.session, a.session), cmp.Compare(b.seq, a.seq), cmp.Compare(b.ordinal, a.ordinal))
}

func byMatch(a, b hit) int { return cmp.Or(cmp.Compare(b.phrases, a.phrases), byAge(a, b)) }

func entriesOf(hits []hit) []corebot.HistoryEntry {
	var found []corebot.HistoryEntry
	for _, h := range hits {
		found = append(found, h.HistoryEntry)
	}
	return found
}

// all finds the newest entries with every phrase.
func (s *search) all(ctx context.Context) ([]hit, error) {
	hits, err := s.tail(ctx, s.query, func(h hit) bool { return h.phrases == len(s.query.Phrases) }, byAge)
	if err != nil {
		return nil, err
	}
	older, err := s.index(ctx, searchNewest, match(s.chat, s.query, " AND "), s.limit)
	return best(append(hits, older...), byAge, s.limit), err
}

// some finds the entries with the most terms.
func (s *search) some(ctx context.Context) ([]hit, error) {
	loose := s.query.Loose()
	hits, err := s.tail(ctx, loose, func(h hit) bool { return h.phrases > 0 }, byMatch)
	if err != nil {
		return nil, err
	}
	older, err := s.index(ctx, searchBest, match(s.chat, loose, " OR "), 4*s.limit)
	for i := range older {
		older[i].phrases = loose.In(runes.Head(older[i].Text(), searched)).Phrases
	}
	return best(append(hits, older...), byMatch, s.limit), err
}

// tail searches the entries that are not indexed yet. An entry that is indexed meanwhile is found twice, and none is
// missed.
func (s *search) tail(ctx context.Context, q terms.Query, wanted func(hit) bool,
	order func(a, b hit) int,
) (hits []hit, err error) {
	var through int64
	if _, err := s.db.reader.one(ctx, indexed, []any{&through}); err != nil {
		return nil, err
	}
	err = s.read(ctx, unindexed, func(h hit) {
		h.phrases = q.In(runes.Head(h.Text(), searched)).Phrases
		if !wanted(h) {
			return
		}
		if hits = append(hits, h); len(hits) >= 4*s.limit {
			hits = best(hits, order, s.limit)
		}
	}, through, s.chat)
	return hits, err
}

func (s *search) index(ctx context.Context, q *query, expression string, limit int) (hits []hit, err error) {
	err = s.read(ctx, q, func(h hit) { hits = append(hits, h) }, expression, s.chat, limit)
	return hits, err
}

func (s *search) read(ctx context.Context, q *query, take func(hit), args ...any) error {
	rows := newEntryScan(s.key)
	return s.db.reader.each(ctx, q, func(row scanner) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, ordinal, err := rows.row(row)
		take(hit{HistoryEntry: e, place: place{e.Session, e.Seq, ordinal}})
		return err
	}, args...)
}

// best sorts hits, removes duplicates and keeps the first ones.
func best(hits []hit, order func(a, b hit) int, limit int) []hit {
	sorted.By(hits, order)
	hits = slices.CompactFunc(hits, func(a, b hit) bool { return a.place == b.place })
	return hits[:min(len(hits), limit)]
}

// match writes a query in the syntax of FTS5. Every term is a quoted string without a quote in it, so no part of a term
// is syntax.
func match(chat int64, q terms.Query, join string) string {
	var b strings.Builder
	for i, p := range q.Phrases {
		if i > 0 {
			b.WriteString(join)
		}
		b.WriteByte('"')
		for j, term := range p.Terms {
			if j > 0 {
				b.WriteByte(' ')
			}
			writeTerm(&b, chat, term)
		}
		b.WriteByte('"')
		if p.Prefix {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// writeTerm writes a term as it stands in the index. The dot is beyond ASCII, so the tokenizer takes it for a letter.
// No term begins with it.
func writeTerm(b *strings.Builder, chat int64, term string) {
	b.WriteString(strconv.FormatInt(chat, 36))
	b.WriteString("·")
	b.WriteString(term)
}

// indexedText is the text of an entry as the index stores it.
func indexedText(chat int64, text string) string {
	var b strings.Builder
	for t := range terms.All(runes.Head(text, searched)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		writeTerm(&b, chat, t.Text)
	}
	return b.String()
}

// SearchIndexOptions of a [SearchIndex]. Zero means the default.
type SearchIndexOptions struct {
	Every   time.Duration // how long after a new entry the index waits for more; 10 s
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
}

// SearchIndex indexes the history after the turns that write it. Indexing takes about as long as the rest of a turn's
// commit, so it is not part of that commit. A search reads the entries that are not indexed yet. The index takes at
// most a tenth of the writer's time. So it catches up with an old history of 100,000 entries in about five minutes.
//
// Limit: while entries come faster than that, searches read ever longer tails, of all chats together.
type SearchIndex struct {
	db      *DB
	opts    SearchIndexOptions
	indexed prometheus.Counter
}

const (
	indexRows  = 50        // rows of the history in one operation of the writer
	indexBytes = 128 << 10 // of their text, unless the first row has more
)

// NewSearchIndex makes an index; it starts nothing.
func NewSearchIndex(db *DB, o SearchIndexOptions) (*SearchIndex, error) {
	if o.Every < 0 {
		return nil, fmt.Errorf("%w: the history is to be indexed every %v", corebot.ErrInvalid, o.Every)
	}
	o.Every = cmp.Or(o.Every, 10*time.Second)
	s := &SearchIndex{db: db, opts: o, indexed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "corebot_search_indexed_total", Help: "Entries of the history that the search index has read.",
	})}
	if o.Metrics == nil {
		return s, nil
	}
	if err := o.Metrics.Register(s.indexed); err != nil {
		return nil, fmt.Errorf("register the metrics of the search index: %w", err)
	}
	return s, nil
}

// Run keeps the index up to date until ctx ends, and rests while no entries come. A failure is logged, and the next
// round makes up for it.
func (s *SearchIndex) Run(ctx context.Context) error {
	signal(s.db.said) // entries from before the index existed, or since it last ran
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.db.said:
		}
		if rest(ctx, about(s.opts.Every)) != nil {
			return nil
		}
		if err := s.CatchUp(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, corebot.ErrClosed) {
			s.opts.Log.Warn().Err(err).Msg("index the history")
			signal(s.db.said)
		}
	}
}

// CatchUp indexes the present entries in small steps.
func (s *SearchIndex) CatchUp(ctx context.Context) error {
	for {
		began := time.Now()
		more, err := s.step(ctx)
		if err != nil || !more {
			return err
		}
		if err := rest(ctx, max(leastRest, restShare*time.Since(began))); err != nil {
			return err
		}
	}
}

var (
	emptyIndex = &query{`INSERT INTO history_terms (history_terms) VALUES ('delete-all')`}
	indexAnew  = &query{`UPDATE history_indexed SET through = 0 WHERE id = 1`}
	toBeFound  = &query{`SELECT COUNT(*) FROM history h WHERE ` + saidAloud}
)

// Renew empties the index and has it made anew, behind the commits of the turns. It gives how many entries the index
// will have. Meanwhile searches read what is not indexed yet from the history.
func (s *SearchIndex) Renew(ctx context.Context) (entries int64, err error) {
	err = s.db.write(ctx, "reindex", func(t *tx) error {
		if _, err := t.exec(emptyIndex); err != nil {
			return err
		}
		_, err := t.exec(indexAnew)
		return err
	})
	if err != nil {
		return 0, err
	}
	signal(s.db.said)
	_, err = s.db.reader.one(ctx, toBeFound, []any{&entries})
	return entries, err
}

// toIndex is a row of the history on its way into the index.
type toIndex struct {
	id, chat int64
	place
	text string // the terms of it
}

var (
	nextToIndex = &query{`SELECT h.id, h.chat_id, h.session, h.seq, h.ordinal, CASE WHEN ` + saidAloud + ` THEN h.text
		ELSE '' END
		FROM history h WHERE h.id > ? ORDER BY h.id LIMIT ? + 0`}
	// A row is known by its place, which is never used again. So the indexed row is the row that was read.
	stillThere = &query{
		`SELECT 1 FROM history WHERE chat_id = ? AND session = ? AND seq = ? AND ordinal = ? AND id = ?`,
	}
	// A statement without a SELECT. One with a SELECT begins a savepoint, at which FTS5 writes what it has gathered: a
	// segment of the index for each entry, which it merges later.
	indexEntry = &query{`INSERT INTO history_terms (rowid, terms) VALUES (?, ?)`}
	// While the last row that was read is there, no other row has got one of the numbers.
	advanceIndex = &query{`UPDATE history_indexed SET through = ?1 WHERE id = 1 AND through = ?2 AND EXISTS (
		SELECT 1 FROM history WHERE id = ?1 AND chat_id = ?3 AND session = ?4 AND seq = ?5 AND ordinal = ?6)`}
)

// step indexes the next rows and says whether there were any.
func (s *SearchIndex) step(ctx context.Context) (more bool, err error) {
	through, rows, err := s.next(ctx)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	_, err = s.put(ctx, through, rows)
	return true, err
}

// put writes the rows behind a number into the index. If that number is no longer the last one, or the last of the rows
// is gone, put writes nothing, and the rows must be read again.
func (s *SearchIndex) put(ctx context.Context, through int64, rows []toIndex) (taken bool, err error) {
	err = s.db.write(ctx, "index", func(t *tx) error {
		last := rows[len(rows)-1]
		n, err := t.exec(advanceIndex, last.id, through, last.chat, last.session, last.seq, last.ordinal)
		if taken = n > 0; !taken || err != nil {
			return err
		}
		for _, r := range rows {
			if r.text == "" {
				continue
			}
			var there int
			found, err := t.one(stillThere, []any{&there}, r.chat, r.session, r.seq, r.ordinal, r.id)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if _, err := t.exec(indexEntry, r.id, r.text); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && taken {
		s.indexed.Add(float64(len(rows)))
	}
	return taken, err
}

var errFullBatch = errors.New("enough rows for one operation")

// next reads the rows behind the last indexed one and cuts them into terms. This is done outside of the writer.
func (s *SearchIndex) next(ctx context.Context) (through int64, rows []toIndex, err error) {
	if _, err := s.db.reader.one(ctx, indexed, []any{&through}); err != nil {
		return 0, nil, err
	}
	size := 0
	err = s.db.reader.each(ctx, nextToIndex, func(row scanner) error {
		var r toIndex
		if err := row.Scan(&r.id, &r.chat, &r.session, &r.seq, &r.ordinal, &r.text); err != nil {
			return err
		}
		if size += min(len(r.text), searched); size > indexBytes && len(rows) > 0 {
			return errFullBatch
		}
		rows = append(rows, r)
		return nil
	}, through, indexRows)
	if errors.Is(err, errFullBatch) {
		err = nil
	}
	for i := range rows {
		rows[i].text = indexedText(rows[i].chat, rows[i].text)
	}
	return through, rows, err
}
