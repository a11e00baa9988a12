package corebot

import (
	"fmt"
	"strings"
	"time"
)

// ToolGrant opens a tool that the policy reserves for admins: to a role, or to one principal. Exactly one of Role and
// Principal is set.
type ToolGrant struct {
	Tool      string    // a name, or the beginning of names and "*"
	Role      Role      // RoleNormal: everybody; RoleAdmin: admins of the turn's chat, also for targets beyond the chat
	Principal Principal // one sender, whatever his role
}

// String writes a grant as [ParseToolGrant] reads it.
func (g ToolGrant) String() string {
	who := string(g.Role)
	if g.Principal != (Principal{}) {
		who = g.Principal.String()
	}
	return g.Tool + "=" + who
}

// ParseToolGrant reads TOOL=WHO, where WHO is a role, or a principal as [Principal.String] spells him.
func ParseToolGrant(s string) (ToolGrant, error) {
	tool, who, found := strings.Cut(s, "=")
	if !found {
		return ToolGrant{}, fmt.Errorf("%w: want TOOL=WHO", ErrInvalid)
	}
	g := ToolGrant{Tool: strings.TrimSpace(tool)}
	var err error
	if who = strings.TrimSpace(who); strings.Contains(who, ":") { // no role has a colon
		g.Principal, err = ParsePrincipal(who)
	} else {
		g.Role, err = ParseRole(who)
	}
	if err != nil {
		return ToolGrant{}, err
	}
	return g, g.Validate()
}

// Validate refuses a grant without a tool, and a grant to nobody.
func (g ToolGrant) Validate() error {
	name := strings.TrimSuffix(g.Tool, "*")
	switch {
	case g.Tool == "":
		return fmt.Errorf("%w: no tool is named", ErrInvalid)
	case strings.ContainsFunc(name, func(r rune) bool { return !toolRune(r) }):
		return fmt.Errorf("%w: tool %q: want a name, or the beginning of names and *", ErrInvalid, g.Tool)
	case (g.Role == "") == (g.Principal == Principal{}):
		return fmt.Errorf("%w: want either a role or a principal", ErrInvalid)
	case g.Role != "":
		_, err := ParseRole(string(g.Role))
		return err
	}
	return g.Principal.Validate()
}

// toolRune says whether a character can be in the name of a tool.
func toolRune(r rune) bool { return r < 0x80 && (plainByte(byte(r)) || r == '.') }

// ToolPin is what Corebot remembers about a tool of an MCP server. Pinned, Approved and Seen are hashes of the server's
// whole description of the tool, in hexadecimal digits. If the server changes the description, Seen
// differs from the other two.
type ToolPin struct {
	Server string `json:"server"`
	Tool   string `json:"tool"` // as the server calls it
	// Pinned is set by the server's first listing or by an operator's approval. Empty: the tool came later and waits
	// for an approval.
	Pinned    string    `json:"pinned,omitempty"`
	Approved  string    `json:"approved,omitempty"` // by an operator; empty: never
	Seen      string    `json:"seen"`
	ChangedAt time.Time `json:"changedAt"` // when Seen got its value
}

// Changed says whether the tool differs from its pinned description.
func (p ToolPin) Changed() bool { return p.Pinned != p.Seen }

// Vouched says whether the operator stands for the tool's present description. An approved description counts. The
// pinned description also counts if trustFirst is set: the operator's setting to trust the first listing of a server.
// For an unknown tool Vouched is trustFirst.
func (p ToolPin) Vouched(trustFirst bool) bool {
	return p.Approved != "" && p.Approved == p.Seen || trustFirst && !p.Changed()
}

// MatchesName says whether a pattern matches a name: the pattern is the whole name, or a beginning of it and "*". Case
// counts.
func MatchesName(pattern, name string) bool {
	beginning, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, beginning)
}

// IsNamePattern says whether a pattern is valid for [MatchesName]: it is not empty, and a "*" stands only at its end.
func IsNamePattern(pattern string) bool {
	return pattern != "" && !strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
}
