package corebot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Money is an amount in millionths of the configured currency.
type Money int64

// maxMoney bounds what can be written: a billion of the currency.
const maxMoney = Money(1_000_000_000_000_000)

// ParseMoney reads an amount such as "2.50": digits, and up to six after a point. It is never negative.
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

// String writes an amount with two digits after the point, or with up to six where they matter.
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

// Price is what a million tokens of a model cost. Without prices of their own, cached tokens cost what the others do.
type Price struct {
	Model                                string // a name, or the beginning of names and "*"
	Input, Output, CacheRead, CacheWrite Money
}

// Prices is a list of prices. There is no built-in one: prices change.
type Prices []Price

// ParsePrices reads a list such as "gpt-4o-mini=0.15/0.60/0.075, claude-*=3/15/0.30/3.75": for each model the prices of a million
// tokens of input, output, input read from the provider's cache, and input written to it; the last two may be left out.
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

// Of finds the price of a model: by its whole name, else by the longest beginning of it.
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
