package policy

import (
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// ApprovalMode says in which turns a privileged call needs an approval. A privileged call is a call that not everyone
// may make.
type ApprovalMode string

const (
	ApproveTainted ApprovalMode = "tainted" // in turns that have read untrusted text
	ApproveAlways  ApprovalMode = "always"  // in all
	ApproveNever   ApprovalMode = "never"   // in none
)

// Approvals says which calls need an approval. The zero Approvals require one for privileged calls of tainted turns.
type Approvals struct {
	Mode    ApprovalMode // empty is ApproveTainted
	Always  []string     // tools that need an approval in every turn: names, or beginnings and "*"
	Tainted []string     // tools that need an approval in a tainted turn, privileged or not
}

// Validate refuses settings that would require less than they seem to.
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

// Rules by which a call needs an approval, or did not get one. They are stored in the audit; they never change.
const (
	RuleApproveTainted  = "approval-tainted"   // the turn has read untrusted text
	RuleApproveEgress   = "approval-egress"    // so has it, and the call can carry data to an address of nobody's words
	RuleApproveAlways   = "approval-always"    // the tool needs an approval in every turn
	RuleNobodyToApprove = "approval-nobody"    // no known admin could approve
	RuleNotApproved     = "approval-denied"    // an admin or a /stop denied it
	RuleNotInTime       = "approval-expired"   // no decision came in time
	RuleNotTheSame      = "approval-drift"     // the call has changed since its approval
	RuleNotAsked        = "approval-not-asked" // the request of its answer did not include the call
	RuleAskedEnough     = "approval-enough"    // too many requests of the message were denied or expired
	RuleDetached        = "approval-detached"  // the answer comes without the call, whose request stays open
	// RuleCannotBind: a file that the call names cannot be read, so a change would stay unknown.
	RuleCannotBind = "approval-not-comparable"
)

// Weight is what counts of an allowed call beside its decision.
type Weight struct {
	Tainted bool // the turn had read untrusted text when the model decided on the call
	// Reads: the call only reads, as Corebot or the operator declares, and its principal alone gets to read the answer.
	Reads bool
	// Contained: the call changes nothing but the files of its own chat, and carries nothing out of it.
	Contained bool
	// CarriesOut: the call can carry data to an address that stood neither in the principal's words nor in a link.
	CarriesOut bool
}

// NeedsApproval returns the rule by which an allowed call needs an approval; empty: the call runs. A call that carries
// data out needs one whoever may make it: a hijacked model leaks with a tool that is open to all.
func (p *Policy) NeedsApproval(tool string, d Decision, w Weight) (rule string) {
	a := p.opts.Approvals
	named := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return corebot.MatchesName(pattern, tool) })
	}
	switch {
	case named(a.Always), d.Privileged && a.Mode == ApproveAlways:
		return RuleApproveAlways
	case !w.Tainted:
	case named(a.Tainted), d.Privileged && !w.Reads && !w.Contained && a.Mode != ApproveNever:
		return RuleApproveTainted
	case w.CarriesOut && a.Mode != ApproveNever:
		return RuleApproveEgress
	}
	return ""
}

// OperatorsText says whether only the operator, or an admin's approval, can have written the text that a call reads.
// Such text is the global memory and the protected paths. Any other file of the workspace can hold text that a tool
// copied from a page. So can a file of a directory that the operator has opened: projects hold what strangers wrote.
func OperatorsText(t Target) bool {
	if t.Path == "" {
		return t.global()
	}
	path, err := rootfs.Clean(t.Path)
	return err == nil && protected(path)
}

// Rules by which an /approve is denied. They are stored in the audit; they never change.
const (
	RulePersonApproves = "approve-person" // the sender is not a person
	RuleApproveBeyond  = "approve-beyond" // the call reaches further than the sender's role
)

// approvalCommands are the rules for /approve and /deny. In the conversation of the call, an admin of that conversation
// decides. Elsewhere an admin of everything decides. Only a person approves, because some text can have told a program,
// an agent or a task what to write. Such a sender may deny, since a denial makes nothing run.
func approvalCommands() []rule {
	t := []rule{{
		name: RulePersonApproves, tool: "/approve", when: notInteractive, targeted: true, who: nobody,
		on: "a command that no person gave: of an MCP client, an agent, a task, an event file, `corebot send`, " +
			"or a webhook that is not `webhook.interactive`",
		reason: "only a person can approve a call: in the terminal, in a chat, or with `corebot approvals approve`",
	}}
	t = append(t, rule{
		name: RuleApproveBeyond, tool: "/approve", when: reachesBeyond,
		on: "a call that reaches beyond its conversation", targeted: true, who: adminsEverywhere,
		reason: "only an admin everywhere can approve a call that reaches beyond its chat",
	})
	for _, command := range []string{"/approve", "/deny"} {
		t = append(t,
			rule{
				name: "approve-elsewhere", tool: command, when: otherChat, on: "a call of another conversation",
				targeted: true, who: adminsThere,
				reason: "only an admin everywhere can say that about a call of another chat",
			},
			rule{name: "approve", tool: command, who: admins, reason: "only an admin can say that"})
	}
	return t
}

func reachesBeyond(_ Options, r Request) bool { return r.Target.Everywhere }

func notInteractive(_ Options, r Request) bool { return !r.Entry.Interactive() }
