// Package tokens counts what a text costs a model in tokens, without a vocabulary and without a network.
//
// A count begins as [llm.Estimate], which is on the high side. Each answer tells how many tokens its request had, in
// the provider's own count. The count follows some of these reports: at once if a request cost more, slowly if it cost
// less.
package tokens

import (
	"math"
	"sync/atomic"

	"github.com/corebot/corebot/agent/llm"
)

const (
	// minLearned is the smallest request that teaches anything, in estimated tokens. In a small request the provider's
	// own markup weighs too much.
	minLearned = 500
	// minShare and maxShare bound what a report can change. Some servers cut a long prompt off without a word, and
	// report what is left of it. Such a report must not make the next prompt longer and longer.
	minShare, maxShare = 0.5, 2
	// slowness is how many lower counts it takes, about, until the count is as low.
	slowness = 4
	// each is how many reports one is learned from, after the first ones.
	each, first = 16, 4
	// reserve is added to what was learned: the next text can have more unusual words.
	reserve = 1.05
)

// Counter counts for one model of one provider. It is safe for concurrent use. The zero value has learned nothing.
type Counter struct {
	share   atomic.Uint64 // bits of a float64: reported tokens of an estimated one; 0 is nothing learned
	reports atomic.Uint64
}

var (
	_ llm.Tokenizer = (*Counter)(nil)
	_ llm.Learner   = (*Counter)(nil)
)

// Count is about how many tokens a text has. It is never more than the text has bytes.
func (c *Counter) Count(text string) int {
	n := llm.Estimate{}.Count(text)
	share := c.learned()
	if share == 0 {
		return n
	}
	return min(int(math.Ceil(float64(n)*share*reserve)), len(text))
}

// Learned says whether a provider has reported a count.
func (c *Counter) Learned() bool { return c.learned() != 0 }

// Lesson is another number whenever counts are others.
func (c *Counter) Lesson() uint64 { return c.share.Load() }

func (c *Counter) learned() float64 { return math.Float64frombits(c.share.Load()) }

// Due says whether the next report is to be learned from: the first four, and one of sixteen from then on.
func (c *Counter) Due() bool {
	n := c.reports.Add(1)
	return n <= first || n%each == 0
}

// Learn takes the provider's count of a request into account. Of two reports at one moment, one can be lost.
func (c *Counter) Learn(estimated, reported int) {
	if estimated < minLearned || reported <= 0 {
		return
	}
	share, last := min(max(float64(reported)/float64(estimated), minShare), maxShare), c.learned()
	if last == 0 {
		last = 1
	}
	if share < last {
		share = last + (share-last)/slowness
	}
	c.share.Store(math.Float64bits(share))
}
