package tools

import (
	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// An operator who knows that a tool of an MCP server only reads can declare so. Its calls then run in tainted turns. A
// request for an approval names that way out, because one result of a server taints the turn, and every later call
// would be asked about.
//
// The server's own word has a part in it, and can be a lie: it decides whether people are told of the way, and nothing
// else. A server that calls its tool a writing tool, or says nothing, gets no such sentence.

// declarable says whether a declaration that the tool only reads would let the call run, and whether the server calls
// the tool one that does. Something else can hold the call all the same: a setting that names
// the tool, an address to which the call can carry data, or people who would read the answer. So can a description
// that nobody has approved.
func (j *job) declarable(rule string, tool Tool, args bound, w policy.Weight) bool {
	if rule != policy.RuleApproveTainted || !tool.saysReads || tool.traits.Has(Unapproved) || args.changed ||
		j.call.Overheard {
		return false
	}
	w.Reads = true
	return j.box.policy.NeedsApproval(tool.name, policy.Decision{Allow: true, Privileged: true}, w) == ""
}

// tellsDeclaration has the denial of a call name the way out, if the request had named it.
func (j *job) tellsDeclaration(a corebot.Approval) {
	if a.Declarable {
		j.howToAllow = corebot.HowToDeclare + ", if you know that the tool only reads"
	}
}
