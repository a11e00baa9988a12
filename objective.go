package corebot

import (
	"slices"
	"time"
)

// Objective is a service level objective: of all events of a kind, a share must be good. The values are stored, and
// metrics show them; they never change.
type Objective string

// The objectives.
const (
	ObjectiveAccepted  Objective = "accepted"  // a message that is offered is stored in time
	ObjectiveAnswered  Objective = "answered"  // a message of somebody is answered in time
	ObjectiveDelivered Objective = "delivered" // a reply reaches its channel in time
	ObjectiveTasks     Objective = "tasks"     // a due task begins in time
)

// Objectives are all objectives.
func Objectives() []Objective {
	return []Objective{ObjectiveAccepted, ObjectiveAnswered, ObjectiveDelivered, ObjectiveTasks}
}

// ObjectiveNotices is the kind in the ids of notices of alarms ([OwnID]).
const ObjectiveNotices = "slo"

// The share of an objective lies between these. With less no burn rate can reach the alarm. More cannot be told from
// all events.
const (
	MinShare = 0.95
	MaxShare = 0.9999
)

// Known says whether this is an objective of this version.
func (o Objective) Known() bool { return slices.Contains(Objectives(), o) }

// Kept counts events by whether they kept their objective.
type Kept struct{ Good, Bad int64 }

// All is how many events there were.
func (k Kept) All() int64 { return k.Good + k.Bad }

// Plus adds other events.
func (k Kept) Plus(o Kept) Kept { return Kept{k.Good + o.Good, k.Bad + o.Bad} }

// Alarm is how bad an objective is missed now, and what is known of that outside.
type Alarm struct {
	Objective Objective
	Severity  string    // such as page
	Since     time.Time // zero: it does not sound
	ToldAt    time.Time // when somebody was last told that it began
	Told      bool      // whoever reads alarms knows that it sounds
	Post      string    // what is still to be posted; empty: nothing
}
