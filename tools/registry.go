package tools

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// Registry is the tools that there are, by name: those that it was made with, and those that come and go while Corebot runs. It is safe for
// use by several goroutines; whoever must not see a change in the middle of something takes a [Registry.Frozen] one.
type Registry struct {
	own []Tool
	now atomic.Pointer[toolset]
}

// toolset is an immutable set of tools.
type toolset struct {
	byName  map[string]Tool
	encoded map[string]string // names, by what providers call them; empty if several are called so
	sorted  []Tool
}

// toolNames is what tools may be called.
func toolNames() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$`)
}

// NewRegistry refuses two tools of one name, and a tool that cannot be offered to a model.
func NewRegistry(all ...Tool) (*Registry, error) {
	r := &Registry{own: slices.Clone(all)}
	return r, r.Replace()
}

// Replace puts tools in the place of those that were put there before, beside the registry's own. Either all of them are there at once, or, if
// one is refused, nothing has changed.
func (r *Registry) Replace(guests ...Tool) error {
	all := slices.Concat(r.own, guests)
	names, next := toolNames(), &toolset{byName: make(map[string]Tool, len(all)), encoded: make(map[string]string, len(all)), sorted: all}
	for _, t := range all {
		if err := t.validate(names); err != nil {
			return err
		}
		if _, ok := next.byName[t.name]; ok {
			return fmt.Errorf("%w: there are two tools called %s", corebot.ErrInvalid, t.name)
		}
		next.byName[t.name] = t
		next.encode(t.name)
	}
	slices.SortFunc(next.sorted, func(a, b Tool) int { return cmp.Compare(a.name, b.name) })
	r.now.Store(next)
	return nil
}

// Frozen is the registry as it is now: later changes do not reach it.
func (r *Registry) Frozen() *Registry {
	f := &Registry{own: r.own}
	f.now.Store(r.now.Load())
	return f
}

// find gives a tool by its name, or by what providers call it: so comes a call of a tool that was not offered to the model.
func (r *Registry) find(name string) (Tool, bool) {
	now := r.now.Load()
	if t, ok := now.byName[name]; ok {
		return t, true
	}
	t, ok := now.byName[now.encoded[name]]
	return t, ok
}

// Has says whether there is a tool by that name now.
func (r *Registry) Has(name string) bool {
	_, ok := r.now.Load().byName[name]
	return ok
}

// encode notes what providers call a tool. What two could mean is neither.
func (s *toolset) encode(name string) {
	encoded := llm.EncodeName(name)
	if _, taken := s.encoded[encoded]; taken {
		name = ""
	}
	s.encoded[encoded] = name
}

// Offer lists the tools that a model may be shown, sorted by name. For one set of tools and one filter it is the same byte for
// byte, so that a provider's prompt cache holds. The schemas are the registry's own: nobody may change them.
func (r *Registry) Offer(visible func(Tool) bool) []llm.Tool {
	sorted := r.now.Load().sorted
	offered := make([]llm.Tool, 0, len(sorted))
	for _, t := range sorted {
		if visible(t) {
			offered = append(offered, t.Offered())
		}
	}
	return offered
}

// Frozen is the box with the tools that there are now: a turn keeps what it began with.
func (b *Box) Frozen() *Box {
	frozen := *b
	frozen.registry = b.registry.Frozen()
	return &frozen
}
