package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// embedder is the service of llm.embeddings; nil: there is none.
func embedder(c config.Embeddings) (storage.Embedder, error) {
	if c.BaseURL == "" {
		return nil, nil
	}
	e, err := openai.NewEmbedder(c.BaseURL, openai.Options{
		Section: "llm.embeddings", Model: c.Model, APIKey: c.APIKey.Reveal(), Timeout: c.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// makeVectors makes what embeds texts in the background, and finds them by their meaning.
func (a *App) makeVectors() error {
	c := a.config.LLM.Embeddings
	e, err := embedder(c)
	if err != nil {
		return err
	}
	caps, err := a.config.Budget.Caps()
	if err != nil {
		return err
	}
	a.upkeep.daily = new(atomic.Pointer[corebot.Cap])
	a.upkeep.daily.Store(&caps.Total)
	a.upkeep.vectors = storage.NewVectors(a.Store, storage.VectorOptions{
		Embedder: e, Model: c.Model, Batch: c.Batch, Pause: a.embeddingPause, Page: a.memoryPage,
		Log: a.log,
	})
	return nil
}

// memoryPage is a page of memory of an agent of this process.
func (a *App) memoryPage(_ context.Context, k corebot.Key, read func() error) (string, error) {
	u := a.agents.all[k.Agent]
	if u == nil {
		return "", fmt.Errorf("the agent %q: %w", k.Agent, corebot.ErrNotFound)
	}
	return u.notes.memory.Still(k, read)
}

// pauseForBudget is how often a used-up budget is looked at again: an operator can raise it.
const pauseForBudget = 10 * time.Minute

// embeddingPause says how long no text may be embedded in the background, because the budget of the day is used up.
func (a *App) embeddingPause(ctx context.Context) (time.Duration, error) {
	most := a.upkeep.daily.Load()
	if most.None() {
		return 0, nil
	}
	now := time.Now()
	today := a.accounting.Day(now)
	used, err := storage.NewBooks(a.Store).Use(ctx, corebot.UsageFilter{From: today, To: today})
	if err != nil || !most.Reached(used) {
		return 0, err
	}
	return min(a.accounting.NextDay(now).Sub(now), pauseForBudget), nil
}

// recollection is what the tools for facts read: by words, and by meaning where there are vectors.
type recollection struct {
	*storage.Facts
	vectors *storage.Vectors
}

// Recall implements [builtin.Facts].
func (r recollection) Recall(ctx context.Context, k corebot.Key, who corebot.Principal, text string,
	limit int,
) ([]corebot.Fact, corebot.Match, error) {
	return r.vectors.Recall(ctx, k, who, text, limit)
}

// checkEmbeddings sends the service of llm.embeddings a text.
func checkEmbeddings(ctx context.Context, c config.Embeddings) []Finding {
	e, err := embedder(c)
	if err == nil && e == nil {
		return nil
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, searchTime)
		defer cancel()
		var vectors [][]float32
		if vectors, _, err = e.Embed(ctx, []string{"a text"}); err == nil {
			return []Finding{ok("%s gives vectors of %d dimensions for what is said", c.Model, len(vectors[0]))}
		}
	}
	return []Finding{fail("llm.embeddings", err)}
}
