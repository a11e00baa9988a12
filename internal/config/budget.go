package config

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // a bare machine or container has no zones of its own

	"github.com/corebot/corebot"
)

// Usage says how what is used is booked.
type Usage struct {
	Currency string `mapstructure:"currency"`
	TimeZone string `mapstructure:"time_zone"`
}

// Budget caps what may be used in a day. The tokens of input and output count together; a cost is an amount such as
// 2.50.
type Budget struct {
	ChatDailyTokens       int64  `mapstructure:"chat_daily_tokens" reload:"yes" min:"0"`
	ChatDailyCost         string `mapstructure:"chat_daily_cost" reload:"yes"`
	PrincipalDailyTokens  int64  `mapstructure:"principal_daily_tokens" reload:"yes" min:"0"`
	PrincipalDailyCost    string `mapstructure:"principal_daily_cost" reload:"yes"`
	RoleNormalDailyTokens int64  `mapstructure:"role_normal_daily_tokens" reload:"yes" min:"0"`
	RoleNormalDailyCost   string `mapstructure:"role_normal_daily_cost" reload:"yes"`
	RoleAdminDailyTokens  int64  `mapstructure:"role_admin_daily_tokens" reload:"yes" min:"0"`
	RoleAdminDailyCost    string `mapstructure:"role_admin_daily_cost" reload:"yes"`
	TotalDailyTokens      int64  `mapstructure:"total_daily_tokens" reload:"yes" min:"0"`
	TotalDailyCost        string `mapstructure:"total_daily_cost" reload:"yes"`
}

// Accounting is how usage is booked. [Load] has checked that it can be read.
func (c Config) Accounting() (a corebot.Accounting, err error) {
	a.Currency = c.Usage.Currency
	if a.Prices, err = corebot.ParsePrices(c.LLM.Prices); err != nil {
		return a, corebot.WithHint(fmt.Errorf("llm.prices: %w", err), "write MODEL=INPUT/OUTPUT with amounts for a "+
			"million tokens, such as gpt-4o-mini=0.15/0.60, separated by commas")
	}
	if a.Zone, err = time.LoadLocation(c.Usage.TimeZone); err != nil {
		return a, corebot.WithHint(fmt.Errorf("usage.time_zone is %q, which is not known here", c.Usage.TimeZone),
			"write a name of the time zone database, such as Europe/Berlin, or UTC")
	}
	return a, nil
}

// Caps is the budget as amounts. [Load] has checked that they can be read.
func (b Budget) Caps() (all corebot.Budget, err error) {
	for _, c := range []struct {
		key    string
		to     *corebot.Cap
		tokens int64
		cost   string
	}{
		{"chat", &all.Chat, b.ChatDailyTokens, b.ChatDailyCost},
		{"principal", &all.Principal, b.PrincipalDailyTokens, b.PrincipalDailyCost},
		{"role_normal", &all.Normal, b.RoleNormalDailyTokens, b.RoleNormalDailyCost},
		{"role_admin", &all.Admin, b.RoleAdminDailyTokens, b.RoleAdminDailyCost},
		{"total", &all.Total, b.TotalDailyTokens, b.TotalDailyCost},
	} {
		c.to.Tokens = c.tokens
		if c.cost == "" {
			continue
		}
		if c.to.Cost, err = corebot.ParseMoney(c.cost); err != nil {
			return all, corebot.WithHint(fmt.Errorf("budget.%s_daily_cost: %w", c.key, err),
				"write an amount such as 2.50, or nothing for no cap")
		}
	}
	return all, nil
}

// validateSpending: a cost that is capped needs prices, or the cap would never be reached.
func (c Config) validateSpending() error {
	if _, err := c.Accounting(); err != nil {
		return err
	}
	caps, err := c.Budget.Caps()
	if err != nil {
		return err
	}
	costs := caps.Chat.Cost + caps.Principal.Cost + caps.Normal.Cost + caps.Admin.Cost + caps.Total.Cost
	if costs > 0 && c.LLM.Prices == "" {
		return corebot.WithHint(errors.New("the budget caps a cost, and llm.prices is empty: nothing would ever cost "+
			"anything"), "set the prices of the models, or cap tokens")
	}
	return nil
}
