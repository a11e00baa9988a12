package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// Page gives the text of a page of memory. It calls read first, while nobody can change the page; nil: lines of
	// pages get no vectors.
	Page func(ctx context.Context, k corebot.Key, read func() error) (string, error)
	Log  zerolog.Logger
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
	ofLines // of memory pages
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
	through           [ofLines + 1]int64
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
	// Texts from before have waited. They wait only until the program has started.
	for failures, more := 0, min(v.opts.Every, time.Second); ; more = v.opts.Every {
		select {
		case <-ctx.Done():
			return nil
		case <-v.db.meant:
		}
		if rest(ctx, about(more)) != nil {
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
	done          []int64 // of a page: its lines, when all have vectors; else nil
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
	return v.nextLines(ctx, s, most)
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

// maxPageLines is how many lines of a page have vectors: the first.
const maxPageLines = 2_000

const linesOfPage = `id BETWEEN ?1 AND ?1 | ?2`

var (
	unlikePage = &query{`SELECT id, agent, channel, account, chat, thread FROM memory_pages WHERE embedded < ?
		ORDER BY embedded LIMIT 1`}
	pageChanges = &query{`SELECT changes FROM memory_pages WHERE id = ?`}
	lineItems   = &query{`SELECT id & ?2 FROM vectors WHERE ` + linesOfPage + ` AND generation >= ?3`}
	pageDone    = &query{`UPDATE memory_pages SET embedded = ? WHERE id = ?`}
	dropLines   = &query{`DELETE FROM vectors WHERE ` + linesOfPage + `
		AND id & ?2 NOT IN (SELECT value FROM json_each(?3))`}
	dropItems = &query{`DELETE FROM vectors WHERE id IN (SELECT value FROM json_each(?))`}
	notePage  = &query{`INSERT INTO memory_pages (agent, channel, account, chat, thread) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (agent, channel, account, chat, thread) DO UPDATE SET embedded = 0, changes = changes + ?6`}
	findPage = &query{`SELECT id, embedded FROM memory_pages WHERE agent = ? AND channel = ? AND account = ?
		AND chat = ? AND thread = ?`}
	forgetPage = &query{`DELETE FROM memory_pages WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ?`}
)

const lastItem int64 = 1<<itemBits - 1

// itemsOf are the numbers of the lines of a page, each with its text; empty lines have none.
func itemsOf(lines []string) (items []int64, texts map[int64]string) {
	texts = map[int64]string{}
	for _, line := range lines[:min(len(lines), maxPageLines)] {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		item := itemOf(line)
		if _, twice := texts[item]; !twice {
			items, texts[item] = append(items, item), line
		}
	}
	return items, texts
}

// itemOf is the number of a line: the same text has the same one wherever it stands.
func itemOf(line string) int64 {
	sum := sha256.Sum256([]byte(strings.TrimSpace(line)))
	return int64(binary.BigEndian.Uint64(sum[:])>>1) & lastItem //nolint:gosec // a part of a hash
}

// have are the lines of a page that have vectors since a generation.
func (v *Vectors) have(ctx context.Context, page, since int64) (items map[int64]bool, err error) {
	items = map[int64]bool{}
	first, ok := spot(ofLines, page, 0)
	if !ok {
		return items, nil
	}
	var item int64
	return items, v.db.reader.whole(ctx, lineItems, func(row scanner) error {
		err := row.Scan(&item)
		items[item] = true
		return err
	}, first, lastItem, since)
}

// nextLines reads the next lines without a vector, of one page. If none is left there, it gives the numbers of all
// lines of the page.
func (v *Vectors) nextLines(ctx context.Context, s vectorState, most int) (b meanings, err error) {
	if v.opts.Page == nil {
		return b, nil
	}
	m, k := meaning{}, corebot.Key{}
	found, err := v.db.reader.one(ctx, unlikePage, []any{
		&m.scope, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
	}, s.generation)
	if err != nil || !found {
		return b, err
	}
	m.key = k
	var changes int64
	text, err := v.opts.Page(ctx, k, func() error {
		_, err := v.db.reader.one(ctx, pageChanges, []any{&changes}, m.scope)
		return err
	})
	if ctx.Err() != nil {
		return b, context.Cause(ctx)
	}
	if err != nil { // it has no vectors then, and holds up no other page
		v.opts.Log.Debug().Err(err).Msg("a page of memory cannot be read")
		text = ""
	}
	m.proof = []any{changes, int64(0), int64(0)}
	b = meanings{kind: ofLines, last: m}
	items, texts := itemsOf(slices.Collect(strings.Lines(text)))
	has, err := v.have(ctx, m.scope, s.generation)
	for _, m.item = range items {
		if m.text = runes.Head(texts[m.item], embedded); !has[m.item] && len(b.all) < most {
			b.all = append(b.all, m)
		}
	}
	if len(b.all) == 0 {
		b.done = append([]int64{}, items...)
	}
	return b, err
}

// doneTx ends the work on a page: it takes away the vectors of lines that are not there any more.
func doneTx(t *tx, s vectorState, b meanings) error {
	first, ok := spot(ofLines, b.last.scope, 0)
	list, err := encode(b.done)
	if err == nil && ok {
		_, err = t.exec(dropLines, first, lastItem, list)
	}
	if err == nil {
		_, err = t.exec(pageDone, s.generation, b.last.scope)
	}
	return err
}

// pageChangedTx has the lines of a page looked at again, and takes away the vectors of lines that have gone.
func pageChangedTx(t *tx, k corebot.Key, gone []string) error {
	if _, err := t.exec(notePage, append(keyArgs(k), 1)...); err != nil {
		return err
	}
	t.said = true
	if len(gone) == 0 {
		return nil
	}
	var page, embedded int64
	if _, err := t.one(findPage, []any{&page, &embedded}, keyArgs(k)...); err != nil {
		return err
	}
	ids := []int64{}
	for _, line := range gone {
		if id, ok := spot(ofLines, page, itemOf(line)); ok {
			ids = append(ids, id)
		}
	}
	list, err := encode(ids)
	if err == nil {
		_, err = t.exec(dropItems, list)
	}
	return err
}
