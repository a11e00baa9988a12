package corebot

import "time"

// Summary stands for the older part of a session in the prompts of its later turns. The messages that it covers stay in the history.
type Summary struct {
	Session int64
	Through int64 // the place in the lane ([Entry].Seq) of the last turn that it covers, with all before it; 0: there is no summary
	Text    string
	Model   string // who wrote it; empty: an extract, made without a model
	At      time.Time
}
