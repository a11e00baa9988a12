package tools

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// Registry is a set of tools, by name. It is immutable.
type Registry struct {
	byName map[string]Tool
	sorted []Tool
}

// NewRegistry refuses two tools of one name, and a tool that cannot be offered to a model.
func NewRegistry(all ...Tool) (*Registry, error) {
	names := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$`)
	r := &Registry{byName: make(map[string]Tool, len(all)), sorted: slices.Clone(all)}
	for _, t := range all {
		if err := t.validate(names); err != nil {
			return nil, err
		}
		if _, ok := r.byName[t.name]; ok {
			return nil, fmt.Errorf("%w: there are two tools called %s", corebot.ErrInvalid, t.name)
		}
		r.byName[t.name] = t
	}
	slices.SortFunc(r.sorted, func(a, b Tool) int { return cmp.Compare(a.name, b.name) })
	return r, nil
}

// Offer lists the tools that a model may be shown, sorted by name. For one set of tools and one filter it is the same byte for
// byte, so that a provider's prompt cache holds.
func (r *Registry) Offer(visible func(Tool) bool) []llm.Tool {
	var offered []llm.Tool
	for _, t := range r.sorted {
		if visible(t) {
			offered = append(offered, llm.Tool{Name: t.name, Description: t.doc, Schema: slices.Clone(t.schema)})
		}
	}
	return offered
}
