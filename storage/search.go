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
	"github.com/corebot/corebot/internal/terms"
)

// searched is how much of an entry can be found: its beginning, in bytes.
const searched = 64 << 10

const foundColumns = `h.session, h.seq, h.ordinal, h.speaker, h.sender, h.name, h.text, h.calls, h.call_id, h.outside, h.message_id, h.at`

// saidAloud are the entries that a search finds: what people and the agent said. Results of tools are left out; those of earlier searches
// would be found again and again.
const saidAloud = `h.speaker IN ('user', 'assistant') AND h.text <> ''`

var (
	chatNumber = &query{`SELECT id FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	indexed    = &query{`SELECT through FROM history_indexed WHERE id = 1`}
	// What the index does not have yet, newest first.
	unindexed = &query{`SELECT ` + foundColumns + ` FROM history h WHERE h.id > ? AND +h.chat_id = ? AND ` + saidAloud + ` ORDER BY h.id DESC`}
	// The chat is a part of every term; that it is asked for as well is a second wall.
	searchNewest = &query{searchIndex + `ORDER BY f.rowid DESC LIMIT ? + 0`}
	searchBest   = &query{searchIndex + `ORDER BY f.rank, f.rowid DESC LIMIT ? + 0`}
)

const searchIndex = `SELECT ` + foundColumns + ` FROM history_terms f JOIN history h ON h.id = f.rowid WHERE history_terms MATCH ? AND h.chat_id = ? `

// Search finds what was said in a chat, in all its sessions: the newest entries that have all phrases of a query, newest first. If there are
// none, whole is false and found are the entries that have the most of its terms. At most limit are found. Of an entry only the first 64 KiB
// count. A turn is found once it has ended, whether the index has it already or not.
func (h *History) Search(ctx context.Context, k corebot.Key, q terms.Query, limit int) (found []corebot.HistoryEntry, whole bool, err error) {
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

// search is one search on its way.
type search struct {
	*History
	key   corebot.Key
	chat  int64
	query terms.Query
	limit int
}

// hit is an entry that was found.
type hit struct {
	corebot.HistoryEntry
	place
	phrases int // that it has of the query
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
		older[i].phrases = loose.In(runes.Head(older[i].Text, searched)).Phrases
	}
	return best(append(hits, older...), byMatch, s.limit), err
}

// tail looks through what the index does not have yet. What is indexed meanwhile is found here and there; nothing is missed.
func (s *search) tail(ctx context.Context, q terms.Query, wanted func(hit) bool, order func(a, b hit) int) (hits []hit, err error) {
	var through int64
	if _, err := s.db.reader.one(ctx, indexed, []any{&through}); err != nil {
		return nil, err
	}
	err = s.read(ctx, unindexed, func(h hit) {
		h.phrases = q.In(runes.Head(h.Text, searched)).Phrases
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
	return s.db.reader.each(ctx, q, func(row scanner) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, ordinal, err := scanEntry(row, s.key)
		take(hit{HistoryEntry: e, place: place{e.Session, e.Seq, ordinal}})
		return err
	}, args...)
}

// best sorts hits and keeps the first of them, each once.
func best(hits []hit, order func(a, b hit) int, limit int) []hit {
	slices.SortFunc(hits, order)
	hits = slices.CompactFunc(hits, func(a, b hit) bool { return a.place == b.place })
	return hits[:min(len(hits), limit)]
}

// match is a query in the syntax of FTS5. Every term is a quoted string without a quote in it, so that nothing of it is syntax.
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

// writeTerm writes a term as it is in the index. The dot is beyond ASCII: to the tokenizer it is a letter, and in no term it stands first.
func writeTerm(b *strings.Builder, chat int64, term string) {
	b.WriteString(strconv.FormatInt(chat, 36))
	b.WriteString("·")
	b.WriteString(term)
}

// indexedText is what the index gets of an entry.
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
	Every   time.Duration // after something was said, until it is indexed with what was said meanwhile; 10 s
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: figures are kept and shown to nobody
}

// SearchIndex indexes the history behind the turns that write it: indexing takes about as long as the rest of a turn's commit, and
// a search finds what is not indexed yet by reading it. It takes a tenth of the writer's time at most, so that a history of
// 100,000 entries from before the index is in it after about five minutes.
//
// Limit: as long as more is said than that, searches read ever longer tails, of all chats together.
type SearchIndex struct {
	db      *DB
	opts    SearchIndexOptions
	indexed prometheus.Counter
}

const (
	indexRows  = 50        // of the history, in one operation of the writer
	indexBytes = 128 << 10 // of their text, unless the first has more
)

// NewSearchIndex makes it; it starts nothing.
func NewSearchIndex(db *DB, o SearchIndexOptions) (*SearchIndex, error) {
	if o.Every < 0 {
		return nil, fmt.Errorf("%w: the history is to be indexed every %v", corebot.ErrInvalid, o.Every)
	}
	o.Every = cmp.Or(o.Every, 10*time.Second)
	s := &SearchIndex{db: db, opts: o, indexed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "corebot_search_indexed_total", Help: "Entries of the history that the search index has taken in.",
	})}
	if o.Metrics == nil {
		return s, nil
	}
	if err := o.Metrics.Register(s.indexed); err != nil {
		return nil, fmt.Errorf("register the metrics of the search index: %w", err)
	}
	return s, nil
}

// Run keeps the index up to date until ctx ends, and rests while nothing is said. A failure is logged, and is made up for the next time.
func (s *SearchIndex) Run(ctx context.Context) error {
	s.db.tellSaid() // before the index was there, or since it last ran
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
			s.db.tellSaid()
		}
	}
}

// CatchUp indexes what is there, a little at a time.
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

// toIndex is a row of the history on its way into the index.
type toIndex struct {
	id, chat int64
	place
	text string // the terms of it
}

var (
	nextToIndex = &query{`SELECT h.id, h.chat_id, h.session, h.seq, h.ordinal, CASE WHEN ` + saidAloud + ` THEN h.text ELSE '' END
		FROM history h WHERE h.id > ? ORDER BY h.id LIMIT ? + 0`}
	// By its place, which is never used again, a row is known to be the one that was read.
	indexEntry = &query{`INSERT INTO history_terms (rowid, terms) SELECT ?, ? WHERE EXISTS (
		SELECT 1 FROM history WHERE chat_id = ? AND session = ? AND seq = ? AND ordinal = ? AND id = ?)`}
	advanceIndex = &query{`UPDATE history_indexed SET through = ? WHERE id = 1 AND through = ?`}
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

// put writes the rows behind a number into the index, unless that is not the last one any more: then they are to be read again.
func (s *SearchIndex) put(ctx context.Context, through int64, rows []toIndex) (taken bool, err error) {
	err = s.db.write(ctx, "index", func(t *tx) error {
		n, err := t.exec(advanceIndex, rows[len(rows)-1].id, through)
		if taken = n > 0; !taken || err != nil {
			return err
		}
		for _, r := range rows {
			if r.text == "" {
				continue
			}
			if _, err := t.exec(indexEntry, r.id, r.text, r.chat, r.session, r.seq, r.ordinal, r.id); err != nil {
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

// next reads the rows behind the last one that is indexed, and cuts them into terms, which is no work for the writer.
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
