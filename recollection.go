package corebot

// Recollection is what a turn finds of its chat as it begins, beside what was said in the session.
type Recollection struct {
	Model       string  // that the session asks for; empty: the configured one
	Summary     Summary // of the part of the session that is not shown word for word; the zero Summary if there is none
	Undelivered []Life  // replies that were given up and that no turn before has heard of, newest first
}
