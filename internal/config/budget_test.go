package config

import (
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestABudgetIsReadAsCaps(t *testing.T) {
	c := Defaults()
	c.LLM.Prices = "gpt-4o=2.50/10"
	c.Budget = Budget{
		ChatDailyTokens: 1, PrincipalDailyCost: "0.50", RoleNormalDailyTokens: 2, RoleAdminDailyCost: "3",
		TotalDailyTokens: 4, TotalDailyCost: "5",
	}
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	got, err := c.Budget.Caps()
	want := corebot.Budget{
		Chat: corebot.Cap{Tokens: 1}, Principal: corebot.Cap{Cost: 500_000}, Normal: corebot.Cap{Tokens: 2},
		Admin: corebot.Cap{Cost: 3_000_000},
		Total: corebot.Cap{Tokens: 4, Cost: 5_000_000},
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	books, err := c.Accounting()
	if price, known := books.Prices.Of("gpt-4o"); err != nil || !known || price.Output != 10_000_000 ||
		books.Currency != "USD" || books.Zone.String() != "UTC" {
		t.Errorf("booked as %+v, %v", books, err)
	}
}

func TestSpendingThatCannotBeReadIsRefusedByTheNameOfItsKey(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"llm.prices":      func(c *Config) { c.LLM.Prices = "gpt-4o" },
		"usage.time_zone": func(c *Config) { c.Usage.TimeZone = "Mars/Olympus" },
		"budget.role_normal_daily_cost": func(c *Config) {
			c.Budget.RoleNormalDailyCost, c.LLM.Prices = "1,50", "m=1/2"
		},
		"llm.prices is empty":       func(c *Config) { c.Budget.TotalDailyCost = "1" },
		"budget.total_daily_tokens": func(c *Config) { c.Budget.TotalDailyTokens = -1 },
		"retention.usage":           func(c *Config) { c.Retention.Usage = 1 },
	} {
		c := Defaults()
		change(&c)
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), want) || corebot.HintOf(err) == "" {
			t.Errorf("want an error about %s with a hint, got %v (%s)", want, err, corebot.HintOf(err))
		}
	}
}
