package policy

import (
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

// ApprovalMode says in which turns a privileged call needs an admin's word: one that not everyone may make.
type ApprovalMode string

const (
	ApproveTainted ApprovalMode = "tainted" // in those that have read text from outside
	ApproveAlways  ApprovalMode = "always"  // in all
	ApproveNever   ApprovalMode = "never"   // in none
)

// Approvals says which calls run only after an admin has said so. The zero Approvals ask for privileged calls of tainted turns.
type Approvals struct {
	Mode    ApprovalMode // empty is ApproveTainted
	Always  []string     // tools that need one in every turn: names, or beginnings and "*"
	Tainted []string     // tools that need one in a tainted turn, privileged or not
}

// Validate refuses what would ask for less than it looks like.
func (a Approvals) Validate() error {
	switch a.Mode {
	case "", ApproveTainted, ApproveAlways, ApproveNever:
	default:
		return fmt.Errorf("%w: mode %q: want tainted, always or never", corebot.ErrInvalid, a.Mode)
	}
	for _, pattern := range slices.Concat(a.Always, a.Tainted) {
		if !corebot.IsNamePattern(pattern) {
			return corebot.WithHint(fmt.Errorf("%w: tool %q", corebot.ErrInvalid, pattern),
				`name a tool, or a beginning followed by "*", such as mcp__files__*`)
		}
	}
	return nil
}

// Rules by which a call needs an approval, or got none. They are stored in the audit; they never change.
const (
	RuleApproveTainted  = "approval-tainted"        // the turn has read text from outside
	RuleApproveAlways   = "approval-always"         // it needs one in every turn
	RuleNobodyToApprove = "approval-nobody"         // no admin is known who could say it
	RuleNotApproved     = "approval-denied"         // an admin, or a /stop, said no
	RuleNotInTime       = "approval-expired"        // nobody said anything in time
	RuleNotTheSame      = "approval-drift"          // it is no longer what was approved
	RuleNotAsked        = "approval-not-asked"      // the request of its answer did not have it
	RuleCannotBind      = "approval-not-comparable" // what it names cannot be read, so nobody could tell whether it has changed
)

// NeedsApproval says by which rule an allowed call runs only after an admin has said so; empty: it runs.
func (p *Policy) NeedsApproval(tool string, d Decision, tainted bool) (rule string) {
	a := p.opts.Approvals
	named := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return corebot.MatchesName(pattern, tool) })
	}
	switch {
	case named(a.Always), d.Privileged && a.Mode == ApproveAlways:
		return RuleApproveAlways
	case tainted && (named(a.Tainted) || d.Privileged && a.Mode != ApproveNever):
		return RuleApproveTainted
	}
	return ""
}

// OperatorsText says whether what a call reads can only have been written by the operator, or by an admin's word: the global memory, and the
// paths that nobody else may write. All else in the workspace may be from a tool that wrote down what a page said.
func OperatorsText(t Target) bool {
	if t.Path == "" {
		return t.Scope == ScopeGlobal
	}
	path, err := rootfs.Clean(t.Path)
	return err == nil && slices.ContainsFunc(workspace.Protected(), func(p string) bool { return rootfs.Within(path, p) })
}

// Rules by which an /approve is denied. They are stored in the audit; they never change.
const (
	RulePersonApproves = "approve-person" // no person gave it
	RuleApproveBeyond  = "approve-beyond" // the call reaches further than the role of who gave it
)

// approvalCommands are the words about a call that waits. In its own conversation an admin of that says them, elsewhere
// one who is admin everywhere. Only a person approves: what a program, an agent or a task writes may be what some text
// told it. Such a sender may deny, since that makes nothing run.
func approvalCommands() []rule {
	t := []rule{{
		name: RulePersonApproves, tool: "/approve", when: notInteractive, targeted: true, who: nobody,
		on: "a command that no person gave: of an MCP client, an agent, a task, an event file, `corebot send`, " +
			"or a webhook that is not `webhook.interactive`",
		reason: "only a person can approve a call: in the terminal, in a chat, or with `corebot approvals approve`",
	}}
	t = append(t, rule{
		name: RuleApproveBeyond, tool: "/approve", when: reachesBeyond, on: "a call that reaches beyond its conversation", targeted: true, who: adminsEverywhere,
		reason: "only an admin everywhere can approve a call that reaches beyond its chat",
	})
	for _, command := range []string{"/approve", "/deny"} {
		t = append(t,
			rule{name: "approve-elsewhere", tool: command, when: otherChat, on: "a call of another conversation", targeted: true, who: adminsThere, reason: "only an admin everywhere can say that about a call of another chat"},
			rule{name: "approve", tool: command, who: admins, reason: "only an admin can say that"})
	}
	return t
}

func reachesBeyond(_ Options, r Request) bool { return r.Target.Everywhere }

func notInteractive(_ Options, r Request) bool { return !r.Entry.Interactive() }
