package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/tools"
)

// standing is how the operator stands to a tool.
type standing struct {
	unapproved bool // he does not stand for its description
	reads      bool // he declares that it only reads
	repeats    bool // its entry says so, whatever its description is now: it runs again after a crash
	carriesOut bool // it can carry data to an address that its arguments choose
}

// standing asks the settings, the entry and the pin of a tool. A declaration holds for the description that the
// operator stands for: a server that describes a tool anew has another tool.
func (s *server) standing(d definition, pin corebot.ToolPin) standing {
	is := standing{unapproved: !pin.Vouched(s.opts.TrustFirst)}
	named := func(patterns []string) bool {
		return matchesAny(patterns, toolName(s.spec.Name, d.Name), s.spec.Name+"/"+d.Name)
	}
	is.repeats = matchesAny(s.spec.ReadOnlyTools, d.Name)
	is.reads = !is.unapproved && (is.repeats || named(s.opts.ReadOnlyTools) || pin.Reads())
	is.carriesOut = named(s.opts.EgressTools) || d.takesAddress()
	return is
}

func (is standing) traits() tools.Traits {
	traits := tools.SideEffect | tools.Privileged | tools.Outside
	if is.reads || is.repeats {
		traits = tools.ReadOnly | tools.Privileged | tools.Outside
	}
	if is.unapproved {
		traits |= tools.Unapproved
	}
	if is.carriesOut {
		traits |= tools.Egress
	}
	return traits
}

// hint says whether the server calls the tool harmless. People are shown it; it decides nothing.
func (d definition) hint() bool {
	var said struct {
		ReadOnly bool `json:"readOnlyHint"`
	}
	return json.Unmarshal(d.Annotations, &said) == nil && said.ReadOnly
}

var (
	addressName = lazy.Regexp(`(?i)ur[il]s?|href|link|website|web_?page|web_?hook|domain|hostname|endpoint`)
	addressText = lazy.Regexp(`(?i)\burls?\b|https?://|web address`)
)

// takesAddress says whether an argument of the tool looks like an address of the web: by its name, its format or its
// description, at any depth.
func (d definition) takesAddress() bool {
	var schema any
	return json.Unmarshal(d.InputSchema, &schema) == nil && holdsAddress(schema)
}

func holdsAddress(schema any) bool {
	switch v := schema.(type) {
	case []any:
		return slices.ContainsFunc(v, holdsAddress)
	case map[string]any:
		if properties, is := v["properties"].(map[string]any); is {
			for name := range properties {
				if addressName().MatchString(name) {
					return true
				}
			}
		}
		format, _ := v["format"].(string)
		text, _ := v["description"].(string)
		if strings.HasPrefix(format, "uri") || strings.HasPrefix(format, "iri") || format == "hostname" ||
			addressText().MatchString(text) {
			return true
		}
		for _, inner := range v {
			if holdsAddress(inner) {
				return true
			}
		}
	}
	return false
}

// maxPlain is the largest number that an argument beside an address may have: a larger one has room for a secret.
const maxPlain = 1 << 20

// goesTo gives the address of a call whose arguments can carry nothing but that address. They are one text, truth
// values and small numbers, all under names of the schema. Of any other call the address says too little.
func (d definition) goesTo(args json.RawMessage) (to []string) {
	var given map[string]any
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(args, &given) != nil || json.Unmarshal(d.InputSchema, &schema) != nil {
		return nil
	}
	for name, value := range given {
		if _, known := schema.Properties[name]; !known {
			return nil
		}
		switch v := value.(type) {
		case string:
			to = append(to, v)
		case float64:
			if v != float64(int(v)) || v < 0 || v > maxPlain {
				return nil
			}
		case bool, nil:
		default:
			return nil
		}
	}
	if len(to) != 1 {
		return nil
	}
	return to
}
