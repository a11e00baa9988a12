package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

type costData struct {
	From, To string
	Today    operate.UsageToday `json:"today"`
	Days     []costRow          `json:"days"`
	Chats    []costRow          `json:"chats"`
	Models   []costRow          `json:"models"`
	Cut      bool               `json:"cut,omitempty"`
}

// costRow is the use of a day, a chat or a model. Share is of the largest, in hundredths.
type costRow struct {
	corebot.UsageSum
	Share int64 `json:"-"`
}

// costDays is how many days the page shows, unless the address says otherwise.
const costDays = 30

// cost adds the use of models up by day, chat and model.
func (c *Console) cost(v *visit) error {
	s := v.service()
	status, err := s.Status(v.ctx(), struct{}{})
	if err != nil {
		return err
	}
	now := time.Now()
	d := costData{
		From:  cmp.Or(v.r.FormValue("from"), now.AddDate(0, 0, 1-costDays).Format(time.DateOnly)),
		To:    cmp.Or(v.r.FormValue("to"), now.Format(time.DateOnly)),
		Today: status.UsageToday,
	}
	sums, err := s.SumUsageByAll(v.ctx(), d.From, d.To)
	if err != nil {
		return err
	}
	d.Days, d.Chats, d.Models, d.Cut = costOf(sums.Days), costOf(sums.Chats), costOf(sums.Models), sums.Cut
	return v.show(page{Name: "cost", Title: "Cost", Data: d})
}

// costOf are the sums in their order; behind [pageRows] rows the rest is one row.
func costOf(sums []corebot.UsageSum) []costRow {
	rows := []costRow{}
	for _, u := range sums {
		rows = append(rows, costRow{UsageSum: u})
	}
	if len(rows) > pageRows {
		rest := costRow{UsageSum: corebot.UsageSum{Name: fmt.Sprintf("%d others", len(rows)-pageRows+1)}}
		for _, r := range rows[pageRows-1:] {
			rest.UsageTotals = rest.UsageTotals.Add(r.UsageTotals)
		}
		rows = append(rows[:pageRows-1], rest)
	}
	var most int64 = 1
	for _, r := range rows {
		most = max(most, r.Tokens())
	}
	for i := range rows {
		rows[i].Share = rows[i].Tokens() * 100 / most
	}
	return rows
}

type healthData struct {
	Health  operate.Health   `json:"health"`
	Status  operate.Status   `json:"status"`
	Samples []corebot.Sample `json:"samples"`
	Chart   string           `json:"-"` // JSON for the script: columns, as uPlot has them
	Peak    int64            `json:"-"`
}

// health shows how Corebot stands, and how it stood for a day.
func (c *Console) health(v *visit) (err error) {
	s, d := v.service(), healthData{}
	if d.Health, err = s.ReadHealth(v.ctx(), struct{}{}); err != nil {
		return err
	}
	if d.Status, err = s.Status(v.ctx(), struct{}{}); err != nil {
		return err
	}
	if d.Samples, err = c.opts.Facts.Samples(v.ctx(), time.Now().Add(-24*time.Hour)); err != nil {
		return err
	}
	columns, err := json.Marshal(columnsOf(d.Samples))
	d.Chart = string(columns)
	if err != nil {
		return err
	}
	return v.show(page{Name: "health", Title: "Health", Data: d})
}

// chartPoints is how many points a chart has at most: more than a screen shows.
const chartPoints = 720

// columnsOf are the columns of the charts: times, waiting, unsent, and turns, failures, calls, tokens a minute, MiB.
func columnsOf(all []corebot.Sample) (columns [8][]float64) {
	for i := range columns {
		columns[i] = []float64{}
	}
	step := max(1, (len(all)+chartPoints-1)/chartPoints)
	for i := 0; i < len(all); i += step {
		p, before := all[i], all[max(i-step, 0)]
		minutes := max(p.At.Sub(before.At).Minutes(), 1.0/6)
		rate := func(now, then int64) float64 { return float64(max(now-then, 0)) / minutes }
		for j, value := range []float64{
			float64(p.At.Unix()), float64(p.Waiting), float64(p.Unsent), rate(p.Answered, before.Answered),
			rate(p.Failed, before.Failed), rate(p.Calls, before.Calls), rate(p.Tokens, before.Tokens),
			float64(p.Memory) / (1 << 20),
		} {
			columns[j] = append(columns[j], value)
		}
	}
	return columns
}
