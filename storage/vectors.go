package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/vector"
)

// Embedder turns texts into vectors, and says what they have cost. A text that it refuses is [corebot.ErrInvalid].
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, corebot.Usage, error)
}

// VectorOptions of [Vectors]. Zero means the default.
type VectorOptions struct {
	Embedder Embedder      // nil: no vectors are made, and none are asked for
	Model    string        // the name of its model: vectors of another model are not compared with its own
	Batch    int           // texts of one call; 64
	Every    time.Duration // how long after a new text the index waits for more; 10 s
	Patience time.Duration // how long a search waits for the vector of its question; 3 s
	// Pause says how long no text may be embedded, since a budget is used up; nil: never.
	Pause func(context.Context) (time.Duration, error)
	Log   zerolog.Logger
}

// Vectors keeps what texts mean as vectors, and finds texts by them. It promises:
//
//   - Vectors are made behind the commits that write the texts. The texts without a vector are the queue, so a crash
//     loses none of them, and none is paid for after its vector is stored.
//   - A vector goes with its text, in one commit.
//   - A search reads the vectors of its own scope only, as a condition of its SQL.
//   - While texts are embedded anew, each of them has its old vector or its new one. Another model begins without any.
//   - Every call is booked on the chats of its texts.
//
// Limits: of a text the first 4 KiB count. A search compares the newest 100,000 vectors of its scope. While the
// endpoint fails the index backs off, up to ten minutes, and searches go on by words.
type Vectors struct {
	db   *DB
	opts VectorOptions
}

const (
	ofHistory int64 = 1 + iota
	ofFacts
	ofSummaries
)

const (
	embedded      = 4 << 10 // bytes of a text, from its beginning
	embeddedAgain = 1_000   // bytes of a text that was refused
	// patientFailures of a batch in a row have its texts embedded one by one: one of them can be the reason.
	patientFailures = 4
)

// NewVectors returns the vectors of a database; it starts nothing.
func NewVectors(db *DB, o VectorOptions) *Vectors {
	o.Batch, o.Every = cmp.Or(o.Batch, 64), cmp.Or(o.Every, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 3*time.Second)
	return &Vectors{db, o}
}

const (
	itemBits  = 38
	scopeBits = 23
)

// spot is the number of a vector: those of one scope lie side by side. Beyond eight million scopes, or items of 38
// bits, there is no place. Such texts are found by their words.
func spot(kind, scope, item int64) (id int64, ok bool) {
	return kind<<(scopeBits+itemBits) | scope<<itemBits | item, scope>>scopeBits == 0 && item>>itemBits == 0
}

// vectorState is the row that says which texts have vectors.
type vectorState struct {
	model             string
	dimensions        int
	generation, since int64 // since: the first generation of the model
	through           [ofSummaries + 1]int64
}

var (
	readVectorState = &query{`SELECT model, dimensions, generation, since, history, facts
		FROM vector_state WHERE id = 1`}
	otherModel = &query{`UPDATE vector_state SET model = ?1, dimensions = 0, generation = generation + 1,
		since = generation + 1, history = 0, facts = 0 WHERE id = 1 AND generation = ?2`}
	embedAnew = &query{`UPDATE vector_state SET generation = generation + 1, history = 0, facts = 0 WHERE id = 1`}
)

func (s *vectorState) columns() []any {
	return []any{&s.model, &s.dimensions, &s.generation, &s.since, &s.through[ofHistory], &s.through[ofFacts]}
}

func (v *Vectors) state(ctx context.Context) (s vectorState, err error) {
	_, err = v.db.reader.one(ctx, readVectorState, s.columns())
	return s, err
}

// Run embeds texts until ctx ends, and rests while no texts come. The first failure of the endpoint is logged, and so
// is its recovery.
func (v *Vectors) Run(ctx context.Context) error {
	if v.opts.Embedder == nil {
		<-ctx.Done()
		return nil
	}
	signal(v.db.meant) // texts from before vectors existed, or since they were last made
	wait := backoff.Policy{Base: v.opts.Every, Max: 10 * time.Minute}
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-v.db.meant:
		}
		if rest(ctx, about(v.opts.Every)) != nil {
			return nil
		}
		err := v.catchUp(ctx, failures >= patientFailures)
		if errors.Is(err, corebot.ErrClosed) || ctx.Err() != nil {
			return nil
		}
		if err == nil {
			if failures > 0 {
				v.opts.Log.Info().Str("model", v.opts.Model).Msg("texts are embedded again")
			}
			failures = 0
			continue
		}
		if failures++; failures == 1 {
			v.opts.Log.Warn().Err(err).Str("model", v.opts.Model).
				Msg("texts cannot be embedded; searches go on by words")
		}
		signal(v.db.meant)
		asked := (*corebot.Failure)(nil)
		pause := wait.Ceiling(failures)
		if errors.As(err, &asked) {
			pause = max(pause, min(asked.RetryAfter, time.Hour))
		}
		if rest(ctx, about(pause)) != nil {
			return nil
		}
	}
}

// CatchUp embeds all texts that have no vector.
func (v *Vectors) CatchUp(ctx context.Context) error { return v.catchUp(ctx, false) }

func (v *Vectors) catchUp(ctx context.Context, single bool) error {
	if err := v.adopt(ctx); err != nil {
		return err
	}
	for {
		if v.opts.Pause != nil {
			pause, err := v.opts.Pause(ctx)
			if err == nil && pause > 0 {
				err = rest(ctx, pause)
				if err == nil {
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("ask whether texts may be embedded: %w", err)
			}
		}
		began := time.Now()
		more, err := v.step(ctx, single)
		if err != nil || !more {
			return err
		}
		single = false
		if err := rest(ctx, max(leastRest, min(time.Since(began)/10, time.Second))); err != nil {
			return err
		}
	}
}

// adopt begins another generation if the model is another one than that of the stored vectors.
func (v *Vectors) adopt(ctx context.Context) error {
	s, err := v.state(ctx)
	if err != nil || s.model == v.opts.Model {
		return err
	}
	return v.begin(ctx, s)
}

func (v *Vectors) begin(ctx context.Context, s vectorState) error {
	return v.db.write(ctx, "vectors.model", func(t *tx) error {
		_, err := t.exec(otherModel, v.opts.Model, s.generation)
		return err
	})
}

// Renew has all texts embedded anew, behind the commits of the turns. Until then searches use their old vectors.
func (v *Vectors) Renew(ctx context.Context) error {
	err := v.db.write(ctx, "vectors.renew", func(t *tx) error {
		_, err := t.exec(embedAnew)
		return err
	})
	if err == nil {
		signal(v.db.meant)
	}
	return err
}

// meaning is a text on its way to its vector.
type meaning struct {
	key         corebot.Key // of the chat that its call is booked on
	scope, item int64
	proof       []any // by which the text is known again when its vector is stored
	text        string
	vector      []byte
}

// meanings are the next texts of one kind, and the number that they reach.
type meanings struct {
	kind, through int64
	last          meaning // that was read, with or without a text
	all           []meaning
}

const keyOfChat = `c.agent, c.channel, c.account, c.chat, c.thread`

var (
	nextHistory = &query{`SELECT ` + keyOfChat + `, h.chat_id, h.id, h.session, h.seq, h.ordinal,
		CASE WHEN ` + saidAloud + ` THEN h.text ELSE '' END
		FROM history h JOIN chats c ON c.id = h.chat_id WHERE h.id > ? ORDER BY h.id LIMIT ? + 0`}
	nextFacts = &query{`SELECT ` + keyOfChat + `, f.owner_id, f.id, f.superseded_by, 0, 0,
		CASE WHEN f.superseded_by = 0 THEN f.subject || ' ' || f.relation || ' ' || f.object ELSE '' END
		FROM facts f JOIN chats c ON c.id = f.chat_id WHERE f.id > ? ORDER BY f.id LIMIT ? + 0`}
	// There is one summary for each session that was too long for the prompt.
	nextSummaries = &query{`SELECT ` + keyOfChat + `, s.chat_id, s.session, s.through, 0, 0, s.text
		FROM summaries s JOIN chats c ON c.id = s.chat_id WHERE s.text <> '' AND NOT EXISTS (SELECT 1 FROM vectors v
		WHERE v.id = (3 << 61) | (s.chat_id << 38) | s.session AND v.generation = ?) LIMIT ? + 0`}
)

// next reads the next texts without a vector: of the history, then facts, then summaries.
func (v *Vectors) next(ctx context.Context, s vectorState, most int) (b meanings, err error) {
	for kind, q := range []*query{ofHistory: nextHistory, ofFacts: nextFacts, ofSummaries: nextSummaries} {
		if q == nil {
			continue
		}
		b = meanings{kind: int64(kind), through: s.through[kind]}
		behind := s.through[kind]
		if b.kind == ofSummaries {
			behind = s.generation
		}
		err := v.db.reader.each(ctx, q, func(row scanner) error {
			var m meaning
			var p [3]int64
			k := &m.key
			if err := row.Scan(&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &m.scope, &m.item, &p[0], &p[1],
				&p[2], &m.text); err != nil {
				return err
			}
			m.text, m.proof = runes.Head(m.text, embedded), []any{p[0], p[1], p[2]}
			if b.through, b.last = max(b.through, m.item), m; m.text == "" {
				return nil
			}
			if b.all = append(b.all, m); len(b.all) == most {
				return errFullBatch
			}
			return nil
		}, behind, 4*most)
		if err != nil && !errors.Is(err, errFullBatch) {
			return b, err
		}
		if len(b.all) > 0 || b.kind != ofSummaries && b.through > s.through[kind] {
			return b, nil
		}
	}
	return meanings{}, nil
}

// step embeds the next texts and says whether there were any.
func (v *Vectors) step(ctx context.Context, single bool) (more bool, err error) {
	s, err := v.state(ctx)
	if err != nil {
		return false, err
	}
	most := v.opts.Batch
	if single {
		most = 1
	}
	b, err := v.next(ctx, s, most)
	if err != nil || b.kind == 0 {
		return false, err
	}
	fault.Point("vectors", "before")
	used, err := v.embed(ctx, b.all, single)
	if err != nil {
		return false, errors.Join(err, v.pay(ctx, b.all, used))
	}
	fault.Point("vectors", "embedded")
	dimensions := s.dimensions
	for _, m := range b.all {
		has := vector.Dimensions(m.vector)
		if dimensions = cmp.Or(dimensions, has); has != 0 && has != dimensions {
			return true, errors.Join(v.pay(ctx, b.all, used), v.begin(ctx, s)) // the endpoint has another model now
		}
	}
	if err := v.put(ctx, s, b, dimensions, used); err != nil {
		return false, err
	}
	fault.Point("vectors", "stored")
	return true, nil
}
