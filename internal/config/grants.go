package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"unique"

	"github.com/corebot/corebot"
)

// Grant is one entry of tools.grants. Its fields and tags are read as those of [Config] are.
type Grant struct {
	Tool      string `mapstructure:"tool" json:"tool"`
	Role      string `mapstructure:"role" json:"role,omitempty" oneof:"normal,admin"`
	Principal string `mapstructure:"principal" json:"principal,omitempty"`
}

// Grants are the entries of tools.grants, in order. The zero value is the empty list. Two lists can be compared with
// ==.
//
// In the environment, and wherever else it is one text, a list is TOOL=WHO with commas between them, or a list of
// entries in JSON.
type Grants struct {
	text unique.Handle[string] // the grants as TOOL=WHO, with commas between them
}

// NewGrants makes a list of grants that [corebot.ToolGrant.Validate] takes.
func NewGrants(list ...corebot.ToolGrant) Grants {
	if len(list) == 0 {
		return Grants{}
	}
	texts := make([]string, len(list))
	for i, g := range list {
		texts[i] = g.String()
	}
	return Grants{unique.Make(strings.Join(texts, ","))}
}

// List gives the grants.
func (g Grants) List() []corebot.ToolGrant {
	if g == (Grants{}) {
		return nil
	}
	list, err := parseGrants("", g.text.Value())
	if err != nil {
		panic(err) // what NewGrants has spelt can be read
	}
	return list
}

// entries are the grants as a file has them.
func (g Grants) entries() []Grant {
	entries := []Grant{}
	for _, one := range g.List() {
		e := Grant{Tool: one.Tool, Role: string(one.Role)}
		if one.Role == "" {
			e.Principal = one.Principal.String()
		}
		entries = append(entries, e)
	}
	return entries
}

// MarshalJSON gives the list itself.
func (g Grants) MarshalJSON() ([]byte, error) { return json.Marshal(g.entries()) }

// String gives the list as JSON.
func (g Grants) String() string {
	text, err := json.Marshal(g.entries())
	if err != nil {
		panic(err) // texts always marshal
	}
	return string(text)
}

func grantLeaves() []leaf { return entryLeaves(Grant{}) }

// readGrants reads a list from a settings file, or from one text. where names the source, for errors.
func readGrants(where string, raw any) (Grants, error) {
	if text, is := raw.(string); is && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		list, err := parseGrants(where, text)
		return NewGrants(list...), err
	}
	entries, ok := entriesOf(raw)
	if !ok {
		return Grants{}, corebot.WithHint(fmt.Errorf("%s is not a list", where),
			`write it as a list of entries, such as [{"tool": "message.send", "role": "normal"}]; in a variable as `+
				`message.send=normal`)
	}
	var list []corebot.ToolGrant
	for i, entry := range entries {
		where := fmt.Sprintf("%s[%d]", where, i)
		var e Grant
		if err := readEntry(where, entry, grantLeaves(), &e); err != nil {
			return Grants{}, err
		}
		g, err := e.grant()
		if err != nil {
			return Grants{}, badGrant(where, err)
		}
		list = append(list, g)
	}
	return NewGrants(list...), nil
}

// grant is an entry as it is meant.
func (e Grant) grant() (g corebot.ToolGrant, err error) {
	g.Tool, g.Role = e.Tool, corebot.Role(e.Role)
	if e.Principal != "" {
		if g.Principal, err = corebot.ReadPrincipal(e.Principal); err != nil {
			return g, err
		}
	}
	return g, g.Validate()
}

func parseGrants(where, text string) ([]corebot.ToolGrant, error) {
	var list []corebot.ToolGrant
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		g, err := corebot.ParseToolGrant(item)
		if err != nil {
			return nil, badGrant(fmt.Sprintf("%s: %q", where, item), err)
		}
		list = append(list, g)
	}
	return list, nil
}

func badGrant(where string, err error) error {
	return corebot.WithHint(fmt.Errorf("%s: %w", where, err),
		`name a tool, or the beginning of names and *, with the role normal or admin or a principal such as `+
			`webhook::alice: {"tool": "message.send", "role": "normal"}, in a variable message.send=normal`)
}
