package config

import "time"

// Approvals says which calls of tools run only after an admin has said so.
type Approvals struct {
	Mode    string        `mapstructure:"mode" oneof:"tainted,always,never" doc:"which privileged calls, those that not everyone may make, wait for an admin's word: those of turns that have read text from outside, all, or none"`
	Always  List[string]  `mapstructure:"always" doc:"tools that wait for an admin's word in every turn, privileged or not: names, or beginnings and *"`
	Tainted List[string]  `mapstructure:"tainted" doc:"the same in turns that have read text from outside, such as [\"web.fetch\"]"`
	Expiry  time.Duration `mapstructure:"expiry" min:"1s" doc:"how long a word is waited for; then it is no"`
}

func defaultApprovals() Approvals { return Approvals{Mode: "tainted", Expiry: 15 * time.Minute} }
