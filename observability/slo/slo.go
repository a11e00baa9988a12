// Package slo watches service level objectives: of all messages and due tasks, a share must be accepted, answered,
// delivered and begun in time.
//
// The rest of the share is the error budget. The burn rate is how many times faster than allowed the budget is used up.
// An alarm sounds while the rate is too high in a long window and in a short one. With the long one, a single mistake
// wakes nobody. With the short one, the alarm ends soon after the cause. The windows and rates are those of the Site
// Reliability Workbook (chapter 5, "Alerting on SLOs"), for an objective of thirty days.
package slo

import (
	"time"

	"github.com/corebot/corebot"
)

// Goal is what an objective asks for.
type Goal struct {
	Objective corebot.Objective
	Share     float64       // of the events that must be good, such as 0.99; see [corebot.MinShare]
	Within    time.Duration // what good means
}

// burn is how many times faster than allowed the error budget is used up.
func (g Goal) burn(k corebot.Kept) float64 {
	if k.All() == 0 {
		return 0
	}
	return float64(k.Bad) / float64(k.All()) / (1 - g.Share)
}

// Severity says how soon somebody must look.
type Severity string

// The severities.
const (
	Page   Severity = "page"   // at once: a fiftieth of the budget of thirty days is gone in an hour
	Ticket Severity = "ticket" // within a day: a twentieth is gone in six hours
)

// rule is when an alarm sounds.
type rule struct {
	severity    Severity
	long, short time.Duration
	burn        float64
}

var rules = []rule{
	{Page, time.Hour, 5 * time.Minute, 14.4},
	{Ticket, 6 * time.Hour, 30 * time.Minute, 6},
}

// windows are those of all rules, the shortest first.
var windows = []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour}

// counts are the events of one objective, by window.
type counts map[time.Duration]corebot.Kept

// sounds says whether the rule's alarm sounds. A few bad events of a bot that nobody talks to are a large share: fewer
// than least wake nobody.
func (r rule) sounds(g Goal, c counts, least int64) bool {
	return c[r.long].Bad >= least && g.burn(c[r.long]) > r.burn && g.burn(c[r.short]) > r.burn
}

// says tells in one sentence what an objective misses.
var says = map[corebot.Objective]string{
	corebot.ObjectiveAccepted:  "Messages are refused, or accepted too slowly",
	corebot.ObjectiveAnswered:  "Messages are answered too late or not at all",
	corebot.ObjectiveDelivered: "Replies are delivered too late or not at all",
	corebot.ObjectiveTasks:     "Tasks begin too late",
}

// again tells that it is over.
var again = map[corebot.Objective]string{
	corebot.ObjectiveAccepted:  "Messages are accepted in time again",
	corebot.ObjectiveAnswered:  "Messages are answered in time again",
	corebot.ObjectiveDelivered: "Replies are delivered in time again",
	corebot.ObjectiveTasks:     "Tasks begin in time again",
}
