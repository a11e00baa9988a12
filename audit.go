package corebot

import "time"

// AuditOutcome is how a tool call ended. The values are stored; they never change.
type AuditOutcome string

const (
	OutcomeSuccess     AuditOutcome = "success"
	OutcomeDenied      AuditOutcome = "denied"
	OutcomeError       AuditOutcome = "error"
	OutcomeInvalidArgs AuditOutcome = "invalid_args"
	OutcomeUnknown     AuditOutcome = "unknown" // begun before a crash; whether it took effect nobody knows
)

// AuditEvent is one row of the audit trail. Args are redacted before they get here.
type AuditEvent struct {
	ID        int64
	At        time.Time
	Event     string // "tool.decision" before a call with side effects runs, "tool.result" after every call
	Tool      string
	Key       Key
	Principal Principal
	Role      Role
	Entry     string       // how the turn came about: "direct", "replay", "task"
	Outcome   AuditOutcome // empty in a decision that allows
	Rule      string       // the policy rule that decided
	Args      string       // JSON
	Duration  time.Duration
	StepID    string
}
