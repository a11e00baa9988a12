package corebot

import (
	"math"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, also on a machine that has none
)

func TestWhatIsCachedCostsItsOwnPriceAndIsCountedOnce(t *testing.T) {
	prices, err := ParsePrices("m=10/20/1/12.5")
	if err != nil {
		t.Fatal(err)
	}
	books := Accounting{Prices: prices}
	got := books.Book(ModelUsage{"m", Usage{
		InputTokens: 1_000_000, OutputTokens: 500_000, CacheReadTokens: 600_000,
		CacheWriteTokens: 100_000,
	}})
	// 300,000 at 10, 600,000 at 1, 100,000 at 12.5 and 500,000 at 20.
	if want := Money(3_000_000 + 600_000 + 1_250_000 + 10_000_000); got.Cost != want || got.Tokens() != 1_500_000 ||
		got.UnpricedTokens != 0 {
		t.Errorf("it comes to %+v, want a cost of %d", got, want)
	}
}

func TestWhatHasNoPriceIsSaidToHaveNone(t *testing.T) {
	books := Accounting{Currency: "EUR"}
	u := books.Book(ModelUsage{"m", Usage{InputTokens: 7, OutputTokens: 3, Estimated: true}})
	if u.Cost != 0 || u.UnpricedTokens != 10 || u.EstimatedTokens != 10 {
		t.Errorf("it comes to %+v", u)
	}
	for want, u := range map[string]UsageTotals{
		"7 tokens in, 3 out (10 of them estimated), cost not known": u,
		"7 tokens in, 3 out, 0.50 EUR": {
			InputTokens:  7,
			OutputTokens: 3, Cost: 500_000,
		},
		"9 tokens in, 3 out, 0.50 EUR and what 4 tokens of models without a price cost": {
			InputTokens:  9,
			OutputTokens: 3, Cost: 500_000, UnpricedTokens: 4,
		},
	} {
		if got := books.Describe(u); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAProvidersFiguresAreBelievedWithinBounds(t *testing.T) {
	got := Usage{
		InputTokens: math.MaxInt64, OutputTokens: -5, CacheReadTokens: math.MaxInt64,
		CacheWriteTokens: 3,
	}.Sane()
	if want := (Usage{InputTokens: maxCallTokens, CacheReadTokens: maxCallTokens}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	dear := Accounting{Prices: Prices{{
		Model: "m", Input: maxMoney, Output: maxMoney, CacheRead: maxMoney,
		CacheWrite: maxMoney,
	}}}
	if u := dear.Book(ModelUsage{"m", Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}}); u.Cost <= 0 {
		t.Errorf("the dearest call costs %d", u.Cost)
	}
	cheap := Accounting{Prices: Prices{{Model: "m", Input: 1}}}
	if u := cheap.Book(ModelUsage{"m", Usage{InputTokens: 1}}); u.Cost != 1 {
		t.Errorf("a token of a price costs %d: it must not be free", u.Cost)
	}
}

func TestADayEndsWhereTheNextBegins(t *testing.T) {
	for _, c := range []struct{ zone, now, next string }{
		{"UTC", "2026-11-21T15:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"},
		{"Europe/Berlin", "2026-11-21T23:30:00Z", "2026-11-22T23:00:00Z"},
		{"Europe/Berlin", "2026-03-29T00:30:00+01:00", "2026-03-29T22:00:00Z"},     // a day of 23 hours
		{"America/Sao_Paulo", "2018-11-03T23:30:00-03:00", "2018-11-04T03:00:00Z"}, // whose midnight does not exist
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, c.now)
		books := Accounting{Zone: zone}
		next := books.NextDay(now)
		if got := next.UTC().Format(time.RFC3339); got != c.next {
			t.Errorf("%s in %s: the day ends %s, want %s", c.now, c.zone, got, c.next)
		}
		if before := next.Add(-time.Nanosecond); books.Day(before) != books.Day(now) ||
			books.Day(next) <= books.Day(now) {
			t.Errorf("%s in %s: %s is no border between days", c.now, c.zone, next)
		}
	}
}

func TestACapIsReachedByTokensOrByCost(t *testing.T) {
	for _, c := range []struct {
		cap  Cap
		use  UsageTotals
		want bool
	}{
		{Cap{}, UsageTotals{InputTokens: math.MaxInt32, Cost: maxMoney}, false},
		{Cap{Tokens: 10}, UsageTotals{InputTokens: 6, OutputTokens: 3}, false},
		{Cap{Tokens: 10}, UsageTotals{InputTokens: 6, OutputTokens: 4}, true},
		{Cap{Cost: 5}, UsageTotals{InputTokens: 100, Cost: 4}, false},
		{Cap{Tokens: 1000, Cost: 5}, UsageTotals{InputTokens: 100, Cost: 5}, true},
	} {
		if got := c.cap.Reached(c.use); got != c.want {
			t.Errorf("%+v of %+v: %v", c.use, c.cap, got)
		}
	}
}
