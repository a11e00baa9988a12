package corebot

import (
	"fmt"
	"strings"
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
