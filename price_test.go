package corebot

import (
	"errors"
	"math"
	"testing"
)

func TestAnAmountIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]Money{
		"0": 0, "2": 2_000_000, "2.5": 2_500_000, "0.000001": 1, "0.15": 150_000,
		"1000000000": maxMoney,
	} {
		if got, err := ParseMoney(text); err != nil || got != want {
			t.Errorf("%s is %d: %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", ".5", "1.", "-1", "+1", "1.0000001", "1,5", "1e3", " 1", "1000000001",
		"99999999999999999999", "١",
	} {
		if got, err := ParseMoney(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %d: %v", text, got, err)
		}
	}
	for m, want := range map[Money]string{
		0: "0.00", 2_500_000: "2.50", 1: "0.000001", 123_456: "0.123456",
		-2_000_000: "-2.00",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(m), got, want)
		}
	}
}

func TestAModelHasThePriceOfItsNameOrOfTheLongestBeginning(t *testing.T) {
	prices, err := ParsePrices("gpt-4o=2.50/10/1.25, gpt-4*=1/2, gpt-*=3/4/5/6,")
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]Price{
		"gpt-4o":      {"gpt-4o", 2_500_000, 10_000_000, 1_250_000, 2_500_000},
		"gpt-4o-mini": {"gpt-4*", 1_000_000, 2_000_000, 1_000_000, 1_000_000},
		"gpt-5":       {"gpt-*", 3_000_000, 4_000_000, 5_000_000, 6_000_000},
	} {
		if got, known := prices.Of(model); !known || got != want {
			t.Errorf("%s costs %+v", model, got)
		}
	}
	if p, known := prices.Of("claude"); known {
		t.Errorf("a model without a price costs %+v", p)
	}
}

func TestAPriceListThatMakesNoSenseIsRefused(t *testing.T) {
	for _, text := range []string{
		"gpt", "=1/2", "gpt=1", "gpt=1/2/3/4/5", "gpt=1/x", "a*b=1/2", "gpt=1/2,gpt=1/2",
		"gpt=-1/2",
	} {
		if p, err := ParsePrices(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %+v: %v", text, p, err)
		}
	}
}

func FuzzPricesAreReadOrRefusedAndNeverNegative(f *testing.F) {
	f.Add("gpt-4o=2.50/10/1.25, gpt-*=3/4")
	f.Add("a=1/2=3/4")
	f.Fuzz(func(t *testing.T, text string) {
		prices, err := ParsePrices(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		books := Accounting{Prices: prices}
		for _, p := range prices {
			for _, m := range []Money{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
				if again, err := ParseMoney(m.String()); m < 0 || err != nil || again != m {
					t.Fatalf("%d is written %s", int64(m), m)
				}
			}
			use := books.Book(ModelUsage{p.Model, Usage{
				InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64,
				CacheReadTokens: 5,
			}})
			if use.Cost < 0 {
				t.Fatalf("%+v costs %d", p, use.Cost)
			}
		}
	})
}
