package corebot

import "time"

// Summary stands for the older part of a session in the prompts of its later turns. The messages that it covers stay in the history.
type Summary struct {
	Session int64     `json:"session"`
	Through int64     `json:"-"` // the place in the lane ([HistoryEntry].Seq) of the last turn that it covers, with all before it; 0: there is no summary
	Text    string    `json:"text"`
	Model   string    `json:"model,omitempty"` // who wrote it; empty: an extract, made without a model
	At      time.Time `json:"at"`
}
