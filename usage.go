package corebot

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Spent is what calls of one model used.
type Spent struct {
	Model string `json:"model"` // as its provider names it
	Usage
}

// Use is what was used by many calls, added up.
type Use struct {
	Turns            int64 `json:"turns"` // that ended with an answer of a model
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`  // of the input
	CacheWriteTokens int64 `json:"cacheWriteTokens"` // of the input
	Cost             Money `json:"cost"`             // of the tokens that have a price, in millionths of the currency
	UnpricedTokens   int64 `json:"unpricedTokens"`   // of models that have no price: what they cost is not known
	EstimatedTokens  int64 `json:"estimatedTokens"`  // that no provider counted
}

// Tokens is what caps count: input and output together. What a provider had in its cache is input like any other.
func (u Use) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Add sums two uses.
func (u Use) Add(v Use) Use {
	u.Turns += v.Turns
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.Cost += v.Cost
	u.UnpricedTokens += v.UnpricedTokens
	u.EstimatedTokens += v.EstimatedTokens
	return u
}

// UseRow is what one principal used of one model, in one chat on one day.
type UseRow struct {
	Day       string    `json:"day"`
	Chat      string    `json:"chat"` // the spelling of its key
	Principal Principal `json:"principal"`
	Model     string    `json:"model"`
	Use
}

// maxCallTokens bounds what is believed of one call. A provider that claims more is wrong; its figure must not overflow a sum.
const maxCallTokens = 1_000_000_000

// Sane is a usage without figures that cannot be: each is at least 0 and bounded, and what was cached is part of the input.
func (u Usage) Sane() Usage {
	bounded := func(n, most int64) int64 { return min(max(n, 0), most) }
	u.InputTokens, u.OutputTokens = bounded(u.InputTokens, maxCallTokens), bounded(u.OutputTokens, maxCallTokens)
	u.CacheReadTokens = bounded(u.CacheReadTokens, u.InputTokens)
	u.CacheWriteTokens = bounded(u.CacheWriteTokens, u.InputTokens-u.CacheReadTokens)
	u.EstimatedTokens = bounded(u.EstimatedTokens, u.InputTokens+u.OutputTokens)
	return u
}

// Accounting is how usage is booked. The zero value knows no price, and its days are those of UTC.
type Accounting struct {
	Prices   Prices
	Currency string         // for display, such as "USD"
	Zone     *time.Location // where days begin; nil is UTC
}

func (a Accounting) zone() *time.Location {
	if a.Zone == nil {
		return time.UTC
	}
	return a.Zone
}

// Day names the calendar day of a moment, such as "2026-11-21". Names sort in the order of days.
func (a Accounting) Day(t time.Time) string { return t.In(a.zone()).Format(time.DateOnly) }

// NextDay is when the day after that of a moment begins. Days are not always 24 hours long, and where a clock is put forward at
// midnight the day begins later.
func (a Accounting) NextDay(t time.Time) time.Time {
	year, month, day := t.In(a.zone()).Date()
	next := time.Date(year, month, day+1, 0, 0, 0, 0, a.zone())
	for a.Day(next) <= a.Day(t) { // a midnight that does not exist may be given as an hour of the day before
		next = next.Add(time.Hour)
	}
	return next
}

// Book is what the calls of one model come to. Turns is left at 0.
func (a Accounting) Book(s Spent) Use {
	n := s.Sane()
	u := Use{InputTokens: n.InputTokens, OutputTokens: n.OutputTokens, CacheReadTokens: n.CacheReadTokens, CacheWriteTokens: n.CacheWriteTokens}
	switch {
	case n.EstimatedTokens > 0:
		u.EstimatedTokens = n.EstimatedTokens
	case n.Estimated: // a journal of a build that did not count them
		u.EstimatedTokens = u.Tokens()
	}
	price, known := a.Prices.Of(s.Model)
	if !known {
		u.UnpricedTokens = u.Tokens()
		return u
	}
	u.Cost = price.cost(n)
	return u
}

// cost prices the tokens of one call, rounded up. It never overflows: prices and tokens are bounded.
func (p Price) cost(u Usage) Money {
	fresh := u.InputTokens - u.CacheReadTokens - u.CacheWriteTokens
	return charge(fresh, p.Input) + charge(u.CacheReadTokens, p.CacheRead) + charge(u.CacheWriteTokens, p.CacheWrite) + charge(u.OutputTokens, p.Output)
}

// charge is tokens at a price for a million of them.
func charge(tokens int64, price Money) Money {
	const million = 1_000_000
	high, low := bits.Mul64(uint64(tokens), uint64(price)) // both are at least 0
	if high >= million {
		return math.MaxInt64 / 8
	}
	n, rest := bits.Div64(high, low, million)
	if rest > 0 {
		n++
	}
	return Money(min(n, math.MaxInt64/8))
}

// UseFilter says whose use is meant, from one day to another, both included. Days are named as [Accounting.Day] does. The zero values
// of the others mean everything.
type UseFilter struct {
	Agent     string
	From, To  string
	Chat      Key
	Principal Principal
	Role      Role // of those who have it now, all together
}

// Describe says a use in words, and what is not known of its cost.
func (a Accounting) Describe(u Use) string {
	text := fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
	if u.EstimatedTokens > 0 {
		text += fmt.Sprintf(" (%d of them estimated)", u.EstimatedTokens)
	}
	switch {
	case u.UnpricedTokens == 0:
		text += ", " + a.money(u.Cost)
	case u.Cost == 0:
		text += ", cost not known"
	default:
		text += fmt.Sprintf(", %s and what %d tokens of models without a price cost", a.money(u.Cost), u.UnpricedTokens)
	}
	return text
}

// DescribeCap says a cap in words.
func (a Accounting) DescribeCap(c Cap) string {
	var parts []string
	if c.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", c.Tokens))
	}
	if c.Cost > 0 {
		parts = append(parts, a.money(c.Cost))
	}
	return strings.Join(parts, " and ")
}

func (a Accounting) money(m Money) string {
	return strings.TrimSpace(m.String() + " " + a.Currency)
}
