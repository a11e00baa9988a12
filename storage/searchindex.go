package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

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
