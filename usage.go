package corebot

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ModelUsage is the usage of calls to one model.
type ModelUsage struct {
	Model string `json:"model"` // the provider's name for it
	Usage
}

// UsageTotals is the usage of many calls, added up.
type UsageTotals struct {
	Turns            int64 `json:"turns"` // turns that ended with an answer of a model
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`  // of the input
	CacheWriteTokens int64 `json:"cacheWriteTokens"` // of the input
	Cost             Money `json:"cost"`             // of the tokens that have a price, in millionths of the currency
	UnpricedTokens   int64 `json:"unpricedTokens"`   // tokens of models without a price: their cost is unknown
	EstimatedTokens  int64 `json:"estimatedTokens"`  // tokens that no provider counted
}

// UsageSum is what was used under one name: that of a day, a chat or a model.
type UsageSum struct {
	Name string `json:"name"`
	UsageTotals
}

// Tokens is what caps count: input and output together. Input from the provider's cache counts like any other input.
func (u UsageTotals) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Add sums two uses.
func (u UsageTotals) Add(v UsageTotals) UsageTotals {
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

// UsageRow is the usage of one model by one principal, in one chat on one day.
type UsageRow struct {
	Day       string    `json:"day"`
	Chat      string    `json:"chat"` // as [Key.String] spells its key
	Principal Principal `json:"principal"`
	Model     string    `json:"model"`
	UsageTotals
}

// maxCallTokens bounds the tokens of one call. A provider that claims more is wrong, and its figure must not overflow a
// sum.
const maxCallTokens = 1_000_000_000

// Sane removes impossible figures: each is at least 0 and bounded, and the cached tokens are part of the input.
func (u Usage) Sane() Usage {
	bounded := func(n, most int64) int64 { return min(max(n, 0), most) }
	u.InputTokens, u.OutputTokens = bounded(u.InputTokens, maxCallTokens), bounded(u.OutputTokens, maxCallTokens)
	u.CacheReadTokens = bounded(u.CacheReadTokens, u.InputTokens)
	u.CacheWriteTokens = bounded(u.CacheWriteTokens, u.InputTokens-u.CacheReadTokens)
	u.EstimatedTokens = bounded(u.EstimatedTokens, u.InputTokens+u.OutputTokens)
	return u
}

// Accounting turns usage into money and days. The zero value has no prices, and its days are days of UTC.
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

// NextDay is the moment when the next calendar day begins. A day is not always 24 hours long. Where a clock is put
// forward at midnight, the day begins later.
func (a Accounting) NextDay(t time.Time) time.Time {
	year, month, day := t.In(a.zone()).Date()
	next := time.Date(year, month, day+1, 0, 0, 0, 0, a.zone())
	for a.Day(next) <= a.Day(t) { // for a midnight that does not exist, time.Date can return an hour of the day before
		next = next.Add(time.Hour)
	}
	return next
}

// Book turns the usage of one model into a Use with its cost. Turns stays 0.
func (a Accounting) Book(s ModelUsage) UsageTotals {
	n := s.Sane()
	u := UsageTotals{
		InputTokens: n.InputTokens, OutputTokens: n.OutputTokens, CacheReadTokens: n.CacheReadTokens,
		CacheWriteTokens: n.CacheWriteTokens,
	}
	switch {
	case n.EstimatedTokens > 0:
		u.EstimatedTokens = n.EstimatedTokens
	case n.Estimated: // a journal of an earlier build, which did not count the estimated tokens
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
	return charge(fresh, p.Input) + charge(u.OutputTokens, p.Output) +
		charge(u.CacheReadTokens, p.CacheRead) + charge(u.CacheWriteTokens, p.CacheWrite)
}

// charge is the cost of tokens at a price for each million.
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

// UsageFilter selects usage from one day to another, both included. Days are named as by [Accounting.Day]. The zero
// values of the other fields select everything.
type UsageFilter struct {
	Agent     string
	From, To  string
	Chat      Key
	Principal Principal
	Role      Role // of everybody who has this role now, together
}

// Describe puts a use into words, with the part of its cost that is unknown.
func (a Accounting) Describe(u UsageTotals) string {
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

// DescribeCap puts a cap into words.
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

// Cap bounds the usage of one day. Zero means no cap.
type Cap struct {
	Tokens int64
	Cost   Money
}

// None says whether the cap bounds nothing.
func (c Cap) None() bool { return c == Cap{} }

// Reached says whether the cap is used up. Tokens without a price count as tokens and cost nothing.
func (c Cap) Reached(u UsageTotals) bool {
	return c.Tokens > 0 && u.Tokens() >= c.Tokens || c.Cost > 0 && u.Cost >= c.Cost
}

// Budget is the set of caps for one day. A turn begins only if every cap that concerns it has something left. The turn
// then runs to its end. So running turns can exceed a cap by as much as they use.
type Budget struct {
	Chat      Cap // each chat
	Principal Cap // each principal, in all chats
	Normal    Cap // all normal principals together
	Admin     Cap // all admins, together
	Total     Cap // everything
}

// BudgetScope names the cap that stopped a message. The values are stored and counted; they never change.
type BudgetScope string

const (
	BudgetChat      BudgetScope = "chat"
	BudgetPrincipal BudgetScope = "principal"
	BudgetRole      BudgetScope = "role"
	BudgetAgent     BudgetScope = "agent"
	BudgetTotal     BudgetScope = "total"
)

// DeferredToTime is the reason of a message with a time of its delivery. Any other reason names a budget.
const DeferredToTime = "deliverAt"

// BudgetScopes are all scopes.
func BudgetScopes() []BudgetScope {
	return []BudgetScope{BudgetChat, BudgetPrincipal, BudgetRole, BudgetAgent, BudgetTotal}
}

// Reason is why a message is deferred that this cap has stopped.
func (s BudgetScope) Reason() string { return string(s) + " budget" }

// Deferred is a deferred message: it has left its lane until DueAt. Then it comes back at the tail.
type Deferred struct {
	Life       int64     `json:"life"`
	MessageID  string    `json:"id"`
	Key        Key       `json:"key"`
	Sender     Principal `json:"sender"`
	Reason     string    `json:"reason"`
	DeferredAt time.Time `json:"parkedAt"`
	DueAt      time.Time `json:"dueAt"`
}

// Situation is what a chat does at this moment.
type Situation struct {
	Running       bool       // a turn runs
	RunningSince  time.Time  // zero: no turn runs
	Waiting       int64      // messages in the lane behind the running one
	Why           string     // what the head waits for; empty: nothing
	WakeAt        time.Time  // when the head's wait ends, if it waits
	Deferred      int64      // deferred messages
	BackAt        time.Time  // when the first deferred message comes back
	Awaited       []Approval // calls that wait for an approval
	AwaitedOfJobs []Approval // likewise, of the jobs of the chat
	Waits         []Pending  // what calls wait for otherwise
	Session       int64      // the number of the current session, from 1
	QueueMode     QueueMode  // of the chat; empty: the configured default
	Model         string     // the model that the session asks for; empty: the configured model
	Think         Thinking   // how much models think in the session; empty: as configured
}

// Money is an amount in millionths of the configured currency.
type Money int64

// maxMoney bounds the amounts that can be written: a billion of the currency.
const maxMoney = Money(1_000_000_000_000_000)

// ParseMoney reads an amount such as "2.50": digits, and up to six more after a point. An amount is never negative.
func ParseMoney(s string) (Money, error) {
	whole, fraction, pointed := strings.Cut(s, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || pointed && (!digits(fraction) || len(fraction) > 6) {
		return 0, fmt.Errorf("%w: amount %q: want digits, and up to six after a point, such as 2.50", ErrInvalid, s)
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil || Money(n) > maxMoney {
		return 0, fmt.Errorf("%w: amount %q is over %s", ErrInvalid, s, maxMoney)
	}
	return Money(n), nil
}

// String writes an amount with two digits after the point, or with up to six if they are not zero.
func (m Money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	fraction := strings.TrimRight(fmt.Sprintf("%06d", m%1_000_000), "0")
	if len(fraction) < 2 {
		fraction += strings.Repeat("0", 2-len(fraction))
	}
	return fmt.Sprintf("%s%d.%s", sign, m/1_000_000, fraction)
}

// Price is the price of a million tokens of a model. Cached tokens without prices of their own cost as much as other
// input.
type Price struct {
	Model                                string // a name, or the beginning of names and "*"
	Input, Output, CacheRead, CacheWrite Money
}

// Prices is a list of prices. Corebot has no built-in list, because prices change.
type Prices []Price

// ParsePrices reads a list such as "gpt-4o-mini=0.15/0.60/0.075, claude-*=3/15/0.30/3.75". Each entry gives the prices
// of a million tokens of one model: input, output, input read from the provider's cache, and input written to it. The
// last two can be left out.
func ParsePrices(text string) (Prices, error) {
	var all Prices
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		p, err := parsePrice(entry)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other Price) bool { return other.Model == p.Model }) {
			return nil, fmt.Errorf("%w: the model %q has two prices", ErrInvalid, p.Model)
		}
		all = append(all, p)
	}
	return all, nil
}

func parsePrice(entry string) (p Price, err error) {
	at := strings.LastIndexByte(entry, '=')
	if at < 1 {
		return p, fmt.Errorf("%w: price %q: want MODEL=INPUT/OUTPUT", ErrInvalid, entry)
	}
	p.Model = strings.TrimSpace(entry[:at])
	if !IsNamePattern(p.Model) {
		return p, fmt.Errorf("%w: price %q: the model is a name, or the beginning of names and *", ErrInvalid, entry)
	}
	amounts := strings.Split(entry[at+1:], "/")
	if len(amounts) < 2 || len(amounts) > 4 {
		return p, fmt.Errorf("%w: price %q: want two to four amounts", ErrInvalid, entry)
	}
	to := []*Money{&p.Input, &p.Output, &p.CacheRead, &p.CacheWrite}
	for i, amount := range amounts {
		if *to[i], err = ParseMoney(strings.TrimSpace(amount)); err != nil {
			return p, fmt.Errorf("price of %s: %w", p.Model, err)
		}
	}
	for _, cached := range to[len(amounts):] {
		*cached = p.Input
	}
	return p, nil
}

// Of finds the price of a model: by its whole name, else by the longest matching beginning.
func (p Prices) Of(model string) (Price, bool) {
	best, found := Price{}, false
	for _, price := range p {
		switch {
		case price.Model == model:
			return price, true
		case MatchesName(price.Model, model) && (!found || len(price.Model) > len(best.Model)):
			best, found = price, true
		}
	}
	return best, found
}

// FileSum is what files take: their bytes, and how many files, directories and links there are.
type FileSum struct {
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
}

// Minus is what f has more than g; less is negative.
func (f FileSum) Minus(g FileSum) FileSum { return FileSum{f.Bytes - g.Bytes, f.Entries - g.Entries} }

// FileCharge is what the folders of chats in the workspace hold on account of one principal. Where the channel could
// not name the sender, the chat is charged.
type FileCharge struct {
	Principal Principal `json:"principal"`
	Chat      string    `json:"chat,omitempty"` // of a principal without an id: [Key.String]
	FileSum
	Chats int64 `json:"chats"` // in how many
}

// ContextUse is what the next request of a chat to its model would carry, in tokens, without the message itself.
type ContextUse struct {
	Model   string        `json:"model"`
	Window  int           `json:"window"` // that prompt and answer can have together
	Answer  int           `json:"answer"` // kept free for the answer
	Parts   []ContextPart `json:"parts"`
	History int           `json:"history"` // tokens of what was said since the summary
	// the tokens of history beyond which a turn summarises the older part; 0: nothing is summarised
	CompactsAt int         `json:"compactsAt"`
	Summary    time.Time   `json:"summary,omitzero"` // when the summary was made; zero: there is none
	Begins     bool        `json:"begins,omitempty"` // the next message begins a new conversation
	Spent      UsageTotals `json:"spent"`            // by the messages of the session that are still kept
}

// ContextPart is one part of a request.
type ContextPart struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	Note   string `json:"note,omitempty"`
}

// Total is what the parts have together.
func (c ContextUse) Total() (tokens int) {
	for _, p := range c.Parts {
		tokens += p.Tokens
	}
	return tokens
}

// Describe puts it into words for people. The cost is described as the accounting has it.
func (c ContextUse) Describe(a Accounting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The next request to %s carries about %d of %d tokens, and your message:", Plainly(c.Model),
		c.Total(), c.Window)
	for _, p := range c.Parts {
		fmt.Fprintf(&b, "\n- %s: %d", p.Name, p.Tokens)
		if p.Note != "" {
			fmt.Fprintf(&b, " (%s)", p.Note)
		}
	}
	fmt.Fprintf(&b, "\n- kept free for the answer: %d\n%s", c.Answer, c.compaction())
	fmt.Fprintf(&b, "\nThis conversation so far: %s", a.Describe(c.Spent))
	return b.String()
}

func (c ContextUse) compaction() string {
	switch {
	case c.Begins:
		return "The next message begins a new conversation: the pause was long."
	case c.CompactsAt == 0:
		return "Nothing is summarised: what does not fit is left out."
	case c.History > c.CompactsAt:
		return "The next message has the older part of the history summarised first."
	}
	text := fmt.Sprintf("The older part is summarised once the history is over %d tokens.", c.CompactsAt)
	if !c.Summary.IsZero() {
		text += " The summary is of " + c.Summary.UTC().Format("15:04 MST on 2 January") + "."
	}
	return text
}

// Sample is how Corebot stood at a moment. Its counters begin when the home was made.
type Sample struct {
	At       time.Time `json:"at"`
	Waiting  int64     `json:"waiting"`  // inbound messages that wait or run
	Unsent   int64     `json:"unsent"`   // outbound messages that wait or are sent
	Answered int64     `json:"answered"` // turns that were answered
	Failed   int64     `json:"failed"`   // claims that ended in a retry or a dead letter
	Calls    int64     `json:"calls"`    // tool calls
	Tokens   int64     `json:"tokens"`
	Cost     Money     `json:"cost"`
	Memory   int64     `json:"memory"` // bytes of the process
}
