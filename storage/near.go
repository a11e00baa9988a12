package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/internal/vector"
)

// embed gives texts their vectors. Texts that the endpoint refuses are asked for in halves, and then shorter. A text
// that is refused alone, while the endpoint takes another one, gets an empty vector: it is found by words only.
func (v *Vectors) embed(ctx context.Context, all []meaning, single bool) (used corebot.Usage, err error) {
	if len(all) == 0 {
		return used, nil
	}
	texts := make([]string, len(all))
	for i, m := range all {
		texts[i] = m.text
	}
	vectors, used, err := v.opts.Embedder.Embed(ctx, texts)
	if err == nil {
		for i, numbers := range vectors {
			if all[i].vector, err = vector.Pack(numbers); err != nil {
				all[i].vector = []byte{}
			}
		}
		return used, nil
	}
	var more corebot.Usage
	refused := errors.Is(err, corebot.ErrInvalid)
	switch half := len(all) / 2; {
	case ctx.Err() != nil:
		return used, context.Cause(ctx)
	case refused && half > 0:
		if more, err = v.embed(ctx, all[:half], false); err == nil {
			used = used.Add(more)
			more, err = v.embed(ctx, all[half:], false)
		}
	case refused && len(all[0].text) > embeddedAgain:
		all[0].text = runes.Head(all[0].text, embeddedAgain)
		more, err = v.embed(ctx, all, single)
	case refused || single && len(all) == 1:
		var other error
		if _, more, other = v.opts.Embedder.Embed(ctx, []string{"a text"}); other == nil {
			all[0].vector, err = []byte{}, nil
		}
	}
	return used.Add(more), err
}

var (
	advanceVectors = map[int64]*query{
		// While the last entry that was read is there, no other entry has got one of the numbers.
		ofHistory: {`UPDATE vector_state SET history = ?1, dimensions = ?2
			WHERE id = 1 AND generation = ?3 AND history = ?4 AND EXISTS (SELECT 1 FROM history h WHERE h.id = ?1
			AND h.chat_id = ?5 AND h.session = ?6 AND h.seq = ?7 AND h.ordinal = ?8)`},
		ofFacts: {`UPDATE vector_state SET facts = ?1, dimensions = ?2
			WHERE id = 1 AND generation = ?3 AND facts = ?4 AND ?5 + ?6 + ?7 + ?8 >= 0`},
		ofSummaries: {`UPDATE vector_state SET dimensions = ?2
			WHERE id = 1 AND generation = ?3 AND ?1 + ?4 + ?5 + ?6 + ?7 + ?8 >= 0`},
		ofLines: {`UPDATE vector_state SET dimensions = ?2 WHERE id = 1 AND generation = ?3 AND ?1 + ?4 >= 0
			AND EXISTS (SELECT 1 FROM memory_pages WHERE id = ?5 AND changes = ?6 + ?7 + ?8)`},
	}
	// A vector is stored if its text is still the one that was read.
	putVector = map[int64]*query{
		ofHistory: {putVectorOf + `(SELECT 1 FROM history WHERE chat_id = ?4 AND session = ?6 AND seq = ?7
			AND ordinal = ?8 AND id = ?5)` + orReplace},
		ofFacts: {putVectorOf + `(SELECT 1 FROM facts WHERE owner_id = ?4 AND id = ?5
			AND superseded_by = ?6 + ?7 + ?8)` + orReplace},
		ofSummaries: {putVectorOf + `(SELECT 1 FROM summaries WHERE chat_id = ?4 AND session = ?5
			AND through = ?6 + ?7 + ?8)` + orReplace},
		ofLines: {putVectorOf + `(SELECT 1 FROM memory_pages WHERE id = ?4 AND ?5 >= 0
			AND changes = ?6 + ?7 + ?8)` + orReplace},
	}
)

const (
	putVectorOf = `INSERT INTO vectors (id, generation, vector) SELECT ?1, ?2, ?3 WHERE EXISTS `
	orReplace   = ` ON CONFLICT (id) DO UPDATE SET generation = excluded.generation,
		vector = excluded.vector`
)

// put stores vectors, how far they reach, and what they have cost. If the texts are to be embedded anew meanwhile, or
// the last of them is gone, put stores the cost alone.
func (v *Vectors) put(ctx context.Context, s vectorState, b meanings, dimensions int, used corebot.Usage) error {
	return v.db.write(ctx, "vectors", func(t *tx) error {
		if err := v.payTx(t, b.all, used); err != nil {
			return err
		}
		last := append([]any{b.through, dimensions, s.generation, s.through[b.kind], b.last.scope}, b.last.proof...)
		n, err := t.exec(advanceVectors[b.kind], last...)
		if err != nil || n == 0 {
			return err
		}
		for _, m := range b.all {
			id, ok := spot(b.kind, m.scope, m.item)
			if !ok {
				continue
			}
			args := append([]any{id, s.generation, m.vector, m.scope, m.item}, m.proof...)
			if _, err := t.exec(putVector[b.kind], args...); err != nil {
				return err
			}
		}
		if b.done != nil {
			return doneTx(t, s, b)
		}
		return nil
	})
}

// pay books what the vectors of texts have cost, where none is stored.
func (v *Vectors) pay(ctx context.Context, all []meaning, used corebot.Usage) error {
	if used == (corebot.Usage{}) || len(all) == 0 {
		return nil
	}
	return v.db.write(ctx, "vectors.cost", func(t *tx) error { return v.payTx(t, all, used) })
}

// payTx books the cost of one call on the chats of its texts, by their sizes.
func (v *Vectors) payTx(t *tx, all []meaning, used corebot.Usage) error {
	bytes, total, keys := map[corebot.Key]int64{}, int64(0), []corebot.Key{}
	for _, m := range all {
		if k := m.key.Acts(); bytes[k] == 0 {
			keys = append(keys, k)
		}
		bytes[m.key.Acts()] += int64(len(m.text))
		total += int64(len(m.text))
	}
	books, left := v.db.accounting.Load(), used
	for i, k := range keys {
		part := left
		if i < len(keys)-1 {
			part.InputTokens = used.InputTokens * bytes[k] / total
			part.EstimatedTokens = used.EstimatedTokens * bytes[k] / total
		}
		left.InputTokens, left.EstimatedTokens = left.InputTokens-part.InputTokens,
			left.EstimatedTokens-part.EstimatedTokens
		u := books.Book(corebot.ModelUsage{Model: v.opts.Model, Usage: part})
		if _, err := t.exec(bookDay, books.Day(t.now), k.Agent, k.String(), "", "", "", modelName(v.opts.Model), 0,
			u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, int64(u.Cost), u.UnpricedTokens,
			u.EstimatedTokens); err != nil {
			return err
		}
		countUseTx(t, k.Agent, u)
	}
	return nil
}

// question is what a search looks for by its meaning.
type question struct {
	vector []byte
	since  int64
}

// ask embeds a question of a chat. A question that cannot be embedded in time says why.
func (v *Vectors) ask(ctx context.Context, k corebot.Key, text string) (q question, why string, err error) {
	s, err := v.state(ctx)
	if err != nil || s.model != v.opts.Model {
		return q, "no text has a vector yet", err
	}
	limited, cancel := context.WithTimeout(ctx, v.opts.Patience)
	defer cancel()
	m := []meaning{{key: k, text: runes.Head(text, embedded)}}
	vectors, used, failed := v.opts.Embedder.Embed(limited, []string{m[0].text})
	if ctx.Err() != nil {
		return q, "", context.Cause(ctx)
	}
	if err := v.pay(ctx, m, used); err != nil {
		return q, "", err
	}
	if failed == nil {
		q.since = s.since
		q.vector, failed = vector.Pack(vectors[0])
	}
	if failed != nil {
		v.opts.Log.Debug().Err(failed).Msg("a question cannot be embedded")
		return q, "the endpoint for vectors does not answer", nil
	}
	return q, "", nil
}

const (
	maxCompared = 100_000 // vectors of one scope: the newest
	fusedDepth  = 50      // of each list that is fused
	fusedRank   = 60      // how little the first places count more than the next
)

var nearVectors = &query{`SELECT id & ?5, vector FROM vectors WHERE id BETWEEN ?1 AND ?2 AND generation >= ?3
	ORDER BY id DESC LIMIT ?4 + 0`}

// near is an item with the cosine of the angle to a question.
type near struct {
	item   int64
	cosine float64
}

// nearest finds the items of some scopes that are nearest to a question, the nearest first.
func (v *Vectors) nearest(ctx context.Context, kind int64, scopes []int64, q question) (ids []int64, err error) {
	var best []near
	var item int64
	look := func(packed []byte) {
		c, ok := vector.Cosine(q.vector, packed)
		if !ok || len(best) == fusedDepth && c <= best[fusedDepth-1].cosine {
			return
		}
		at, _ := slices.BinarySearchFunc(best, c, func(n near, c float64) int { return cmp.Compare(c, n.cosine) })
		best = slices.Insert(best, at, near{item, c})
		best = best[:min(len(best), fusedDepth)]
	}
	dest := []any{&item, look}
	for _, scope := range scopes {
		first, ok := spot(kind, scope, 0)
		if !ok {
			continue
		}
		if err := v.db.reader.whole(ctx, nearVectors, func(row scanner) error { return row.Scan(dest...) }, first,
			first|lastItem, q.since, maxCompared, lastItem); err != nil {
			return nil, err
		}
	}
	for _, n := range best {
		ids = append(ids, n.item)
	}
	return ids, nil
}

// fuse joins lists by reciprocal rank (Cormack, Clarke and Büttcher, 2009): what stands high in several lists comes
// first. Of equal ones the first list's come first.
func fuse(limit int, lists ...[]int64) (all []int64) {
	scores := map[int64]float64{}
	for _, list := range lists {
		for rank, one := range list {
			if _, known := scores[one]; !known {
				all = append(all, one)
			}
			scores[one] += 1 / float64(fusedRank+rank+1)
		}
	}
	slices.SortStableFunc(all, func(a, b int64) int { return cmp.Compare(scores[b], scores[a]) })
	return all[:min(len(all), limit)]
}

var (
	searchIDs = &query{`SELECT h.id FROM history_terms f JOIN history h ON h.id = f.rowid
		WHERE history_terms MATCH ? AND h.chat_id = ? ORDER BY f.rank, f.rowid DESC LIMIT ? + 0`}
	unindexedIDs = &query{`SELECT h.id, h.text FROM history h WHERE h.id > ? AND +h.chat_id = ? AND ` + saidAloud +
		` ORDER BY h.id DESC LIMIT ? + 0`}
	entriesByID = &query{`SELECT h.id, ` + historyColumns + ` FROM history h JOIN json_each(?) j ON h.id = j.value
		WHERE h.chat_id = ?`}
)

// Search finds entries of a chat by their words and by their meaning, the best first. A query with quotes means its
// words: it is searched as [History.Search] does, and so is every query without an embedder. If the endpoint fails, the
// words decide, and the match says so.
func (v *Vectors) Search(ctx context.Context, k corebot.Key, q terms.Query,
	limit int,
) (found []corebot.HistoryEntry, m corebot.Match, err error) {
	var asked question
	if v.opts.Embedder != nil && !q.Quoted {
		if asked, m.Without, err = v.ask(ctx, k, q.Text); err != nil {
			return nil, m, err
		}
	}
	if asked.vector == nil {
		found, m.Whole, err = NewHistory(v.db).Search(ctx, k, q, limit)
		return found, m, err
	}
	m.Meaning = true
	var chat int64
	known, err := v.db.reader.one(ctx, chatNumber, []any{&chat}, keyArgs(k)...)
	if err != nil || !known || limit < 1 {
		return nil, m, err
	}
	byMeaning, err := v.nearest(ctx, ofHistory, []int64{chat}, asked)
	if err != nil {
		return nil, m, err
	}
	newest, byWords, err := v.byWords(ctx, chat, q.Loose())
	if err != nil {
		return nil, m, err
	}
	found, err = v.entries(ctx, k, chat, fuse(limit, newest, byWords, byMeaning))
	return found, m, err
}

// Sources is that of [History.Sources].
func (v *Vectors) Sources(ctx context.Context, k corebot.Key, found []corebot.HistoryEntry) ([]corebot.Sources, error) {
	return NewHistory(v.db).Sources(ctx, k, found)
}

// maxTail bounds the entries that are not indexed yet and that a search by meaning reads: the newest.
const maxTail = 1_000

// byWords gives the entries of a chat that have most of the words of a query: those that no index has yet, and the
// others.
func (v *Vectors) byWords(ctx context.Context, chat int64, q terms.Query) (newest, indexedIDs []int64, err error) {
	var through, id int64
	if _, err := v.db.reader.one(ctx, indexed, []any{&through}); err != nil {
		return nil, nil, err
	}
	if len(q.Phrases) == 0 {
		return nil, nil, nil
	}
	var text string
	if err := v.db.reader.each(ctx, unindexedIDs, func(row scanner) error {
		err := row.Scan(&id, &text)
		if len(newest) < fusedDepth && 2*q.In(runes.Head(text, embedded)).Phrases >= len(q.Phrases) {
			newest = append(newest, id)
		}
		return err
	}, through, chat, maxTail); err != nil {
		return nil, nil, err
	}
	err = v.db.reader.whole(ctx, searchIDs, func(row scanner) error {
		err := row.Scan(&id)
		indexedIDs = append(indexedIDs, id)
		return err
	}, match(chat, q, " OR "), chat, fusedDepth)
	return newest, indexedIDs, err
}

// entries reads entries of a chat in the order of their numbers in ids.
func (v *Vectors) entries(ctx context.Context, k corebot.Key, chat int64,
	ids []int64,
) (found []corebot.HistoryEntry, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("encode numbers of entries: %w", err)
	}
	byID, rows := map[int64]corebot.HistoryEntry{}, newEntryScan(k)
	err = v.db.reader.each(ctx, entriesByID, func(row scanner) error {
		var id int64
		e, _, err := rows.row(behindNumber{row, &id})
		byID[id] = e
		return err
	}, string(list), chat)
	for _, id := range ids {
		if e, ok := byID[id]; ok {
			found = append(found, e)
		}
	}
	return found, err
}

// behindNumber is a row whose first column is its number.
type behindNumber struct {
	scanner
	id *int64
}

func (b behindNumber) Scan(dest ...any) error { return b.scanner.Scan(append([]any{b.id}, dest...)...) }

// Recall finds facts that a chat sees by their words and by their meaning, the best first, for a principal: see
// [Facts.RecallFor].
func (v *Vectors) Recall(ctx context.Context, k corebot.Key, who corebot.Principal, text string,
	limit int,
) (found []corebot.Fact, m corebot.Match, err error) {
	var asked question
	if v.opts.Embedder != nil {
		if asked, m.Without, err = v.ask(ctx, k, text); err != nil {
			return nil, m, err
		}
	}
	if asked.vector == nil {
		found, err = NewFacts(v.db).RecallFor(ctx, k, who, text, limit)
		return found, m, err
	}
	m.Meaning = true
	var owners, byWords []int64
	if err := v.db.reader.view(ctx, func(c *prepared) error {
		if owners, err = ownersIn(c, k); err != nil {
			return err
		}
		scores, err := scoresIn(c, owners, "", factWords(text, maxRecallWords))
		byWords = bestOf(scores, fusedDepth)
		return err
	}); err != nil {
		return nil, m, err
	}
	byMeaning, err := v.nearest(ctx, ofFacts, owners, asked)
	if err != nil {
		return nil, m, err
	}
	ids := fuse(limit, byWords, byMeaning)
	err = v.db.reader.view(ctx, func(c *prepared) (err error) {
		ids, err = withOwnHalf(c, k, owners, who, factWords(text, maxRecallWords), ids, limit)
		if err == nil {
			found, err = factsIn(c, ids)
		}
		return err
	})
	found = slices.DeleteFunc(found, func(f corebot.Fact) bool { return f.SupersededBy != 0 || !f.SeenIn(k) })
	sorted.By(found, func(a, b corebot.Fact) int {
		return cmp.Compare(slices.Index(ids, a.ID), slices.Index(ids, b.ID))
	})
	return found, m, err
}

// Lines finds lines of memory pages. Without an embedder, and for a query with quotes, it gives the lines with every
// phrase, in their order. Otherwise it gives at most limit lines, by their words and by their meaning, the best first.
// A page whose lines have no vectors yet gets them later.
func (v *Vectors) Lines(ctx context.Context, k corebot.Key, q terms.Query, pages []corebot.MemoryLines,
	limit int,
) (found []corebot.LineAt, m corebot.Match, err error) {
	var asked question
	if v.opts.Embedder != nil && !q.Quoted {
		if asked, m.Without, err = v.ask(ctx, k, q.Text); err != nil {
			return nil, m, err
		}
	}
	var words, near, scopes []int64 // words and near are places: the page in the upper half, the line in the lower one
	places := map[int64][]int64{}
	for i, page := range pages {
		for n, line := range page.Lines {
			at := int64(i)<<32 | int64(n)
			if len(q.Phrases) > 0 && q.In(line).Phrases == len(q.Phrases) {
				words = append(words, at)
			}
			if asked.vector != nil {
				item := itemOf(line)
				places[item] = append(places[item], at)
			}
		}
		if v.opts.Embedder == nil {
			continue
		}
		id, err := v.pageOf(ctx, page)
		if err != nil {
			return nil, m, err
		}
		scopes = append(scopes, id)
	}
	if m.Meaning = asked.vector != nil; m.Meaning {
		items, err := v.nearest(ctx, ofLines, scopes, asked)
		if err != nil {
			return nil, m, err
		}
		for _, item := range items {
			near = append(near, places[item]...)
		}
		words = fuse(limit, words, near)
	}
	for _, at := range words {
		found = append(found, corebot.LineAt{Page: int(at >> 32), Line: int(at & (1<<32 - 1))})
	}
	return found, m, nil
}

// pageOf is the number of a page, 0 without any. It marks the page to be looked at if a line has no vector, or if a
// vector has no line.
func (v *Vectors) pageOf(ctx context.Context, page corebot.MemoryLines) (id int64, err error) {
	s, err := v.state(ctx)
	if err != nil {
		return 0, err
	}
	var embedded int64
	if _, err := v.db.reader.one(ctx, findPage, []any{&id, &embedded}, keyArgs(page.Key)...); err != nil {
		return 0, err
	}
	has, err := v.have(ctx, id, s.since)
	if err != nil {
		return 0, err
	}
	items, _ := itemsOf(page.Lines)
	same := len(items) == len(has)
	for _, item := range items {
		same = same && has[item]
	}
	if same || id != 0 && embedded == 0 {
		return id, nil
	}
	return id, v.db.write(ctx, "vectors.page", func(t *tx) error {
		t.said = true
		_, err := t.exec(notePage, append(keyArgs(page.Key), 0)...)
		return err
	})
}
