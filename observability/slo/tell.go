package slo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

func (m *Monitor) log(g Goal, r rule, c counts, begins bool, text string) {
	line := m.opts.Log.Info()
	if begins {
		line = m.opts.Log.Error()
	}
	line.Str("objective", string(g.Objective)).Str("severity", string(r.severity)).
		Float64("burn", g.burn(c[r.long])).Msg(text)
}

// told is what is posted.
type told struct {
	ID        string            `json:"id"`
	Objective corebot.Objective `json:"objective"`
	Severity  Severity          `json:"severity"`
	State     string            `json:"state"` // firing or resolved
	At        time.Time         `json:"at"`
	Text      string            `json:"text"`
	Share     float64           `json:"share"`
	Within    string            `json:"within"`
	Good      int64             `json:"good"` // in the long window
	Bad       int64             `json:"bad"`
	Burn      float64           `json:"burn"`
}

// tell is the notice of a change, and what is posted of it stands in the alarm.
func (m *Monitor) tell(g Goal, r rule, a *corebot.Alarm, now time.Time, text string, c counts) *corebot.Message {
	state, kept := "resolved", c[r.long]
	if a.Told {
		state = "firing"
	}
	id := corebot.OwnID(corebot.ObjectiveNotices, string(g.Objective), string(r.severity), state, now.UnixMilli())
	if m.opts.Post != nil {
		body, err := json.Marshal(told{
			id, g.Objective, r.severity, state, now.UTC(), text, g.Share, g.Within.String(), kept.Good, kept.Bad,
			g.burn(kept),
		})
		if err == nil {
			a.Post = string(body)
		}
	}
	if m.opts.Chat == (corebot.Key{}) {
		return nil
	}
	notice := corebot.TextNotice(m.opts.Chat, id, "", text, corebot.Notice{Kind: corebot.NoticeObjective})
	return &notice
}

// postAll posts what is still to be posted of all alarms, at the same time: an address that takes long holds up a look
// only once.
func (m *Monitor) postAll(ctx context.Context, alarms []corebot.Alarm) {
	var posts sync.WaitGroup
	for _, a := range alarms {
		posts.Go(func() { m.post(ctx, a) })
	}
	posts.Wait()
}

// post sends the pending post of an alarm. A post that fails is tried again at the next look, unless a later change of
// the alarm has replaced it.
func (m *Monitor) post(ctx context.Context, a corebot.Alarm) {
	if a.Post == "" || m.opts.Post == nil {
		return
	}
	var body told
	if err := json.Unmarshal([]byte(a.Post), &body); err != nil {
		body.ID = corebot.OwnID(corebot.ObjectiveNotices, a.Post)
	}
	if err := m.opts.Post(ctx, body.ID, []byte(a.Post)); err != nil {
		line, refused := m.opts.Log.Warn().Err(err).Str("objective", string(a.Objective)), (*corebot.Failure)(nil)
		if !errors.As(err, &refused) || refused.Class != corebot.Permanent {
			line.Msg("an alarm is posted again in a minute")
			return
		}
		line.Msg("an alarm is not posted, because the other side refuses it")
	}
	if err := m.store.Posted(ctx, a); err != nil && ctx.Err() == nil {
		m.opts.Log.Warn().Err(err).Msg("an alarm was posted, and will be posted once more under the same id")
	}
}

// percent writes a share for people: 99 %, 99.5 %.
func percent(share float64) string { return fmt.Sprintf("%.6g %%", share*100) }

// spell writes a time for people.
func spell(d time.Duration) string {
	switch {
	case d == time.Hour:
		return "hour"
	case d%time.Hour == 0 && d > 0, d >= 10*time.Hour: // nobody counts in 1,234 minutes
		return fmt.Sprintf("%d hours", d.Round(time.Hour)/time.Hour)
	case d < 2*time.Minute:
		return "a minute"
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}
