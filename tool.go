package corebot

import (
	"fmt"
	"strings"
	"time"
)

// ToolGrant opens a tool that is kept for admins: to a role, or to one principal. Exactly one of Role and Principal is set.
type ToolGrant struct {
	Tool      string    // a name, or the beginning of names and "*"
	Role      Role      // RoleNormal is everybody; RoleAdmin is who is admin where the turn runs, also beyond it
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
	if who = strings.TrimSpace(who); strings.Contains(who, ":") { // which no role has
		g.Principal, err = ParsePrincipal(who)
	} else {
		g.Role, err = ParseRole(who)
	}
	if err != nil {
		return ToolGrant{}, err
	}
	return g, g.Validate()
}

// Validate refuses a grant of nothing, and one to nobody.
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

// toolRune is what names of tools are made of.
func toolRune(r rune) bool { return r < 0x80 && (plainByte(byte(r)) || r == '.') }

// ToolPin is what is known of a tool of an MCP server: how it was when it was pinned, when an operator approved it, and when it was seen last. All
// three are hashes of all that its server says of the tool, in hexadecimal digits.
type ToolPin struct {
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`               // as the server calls it
	Pinned    string    `json:"pinned,omitempty"`   // by the first listing of its server, or by an approval; empty: it came later and waits for one
	Approved  string    `json:"approved,omitempty"` // by an operator; empty: never
	Seen      string    `json:"seen"`
	ChangedAt time.Time `json:"changedAt"` // when Seen became what it is
}

// Changed says whether the tool is not what it is pinned to.
func (p ToolPin) Changed() bool { return p.Pinned != p.Seen }

// Vouched says whether the operator stands for what the tool says of itself now: he has approved it, or, with trustFirst, it is what it was when it was
// pinned: he wrote down the server. Of a tool that nobody knows it is trustFirst.
func (p ToolPin) Vouched(trustFirst bool) bool {
	return p.Approved != "" && p.Approved == p.Seen || trustFirst && !p.Changed()
}

// MatchesName says whether a pattern means a name: the pattern is the name, or a beginning of it and "*". Case counts.
func MatchesName(pattern, name string) bool {
	beginning, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, beginning)
}

// IsNamePattern says whether [MatchesName] can make sense of a pattern: it is not empty, and has a "*" at its end at most.
func IsNamePattern(pattern string) bool {
	return pattern != "" && !strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
}
