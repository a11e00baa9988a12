package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

const (
	maxTools = 256 // of one server that are offered
	maxNotes = 10  // of one server that are said
)

// Pins remembers what tools looked like.
type Pins interface {
	// Sight notes how the tools of a server look now, by their names, and gives what is known of each. A tool that was not known is approved as it
	// is, unless trustNew is false and others of the server were known: then it waits.
	Sight(ctx context.Context, server string, fingerprints map[string]string, trustNew bool) (map[string]corebot.ToolPin, error)
}

// catalog is what a server offers to us.
type catalog struct {
	tools []tools.Tool
	names []string // of the tools
	notes []string // what was left out, and why
	held  []string // tools, as the server calls them, that wait for an approval
	moved []string // tools that are not what they were, whether they wait or not
}

func (c *catalog) note(format string, args ...any) {
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
	}
}

// problem says in one line what of the server is not offered.
func (c *catalog) problem() string { return strings.Join(c.notes, "; ") }

// makeCatalog takes of a server's tools what the operator lets through, what can be offered to a model, and, if tools are pinned, what is as it was
// approved.
func (s *server) makeCatalog(ctx context.Context, defs []definition, more bool) (catalog, error) {
	var c catalog
	defs = slices.DeleteFunc(defs, func(d definition) bool { return d.err == nil && !s.allows(d.Name) })
	if more || len(defs) > maxTools {
		c.note("it has more tools than the %d that are looked at", maxTools)
		defs = defs[:min(len(defs), maxTools)]
	}
	pins, err := s.sight(ctx, defs)
	if err != nil {
		return c, err
	}
	for _, d := range defs {
		pin, known := pins[d.Name]
		if known && pin.Changed() {
			c.moved = append(c.moved, d.Name)
		}
		if known && pin.Changed() && s.pinned() {
			c.held = append(c.held, d.Name)
			c.note("the tool %q is not what was approved (corebot mcp approve %s/%s)", clip(d.Name, 60), s.spec.Name, clip(d.Name, 60))
			continue
		}
		c.add(s, d)
	}
	return c, nil
}

// sight asks what is known of tools.
func (s *server) sight(ctx context.Context, defs []definition) (map[string]corebot.ToolPin, error) {
	if s.opts.Pins == nil {
		return nil, nil
	}
	prints := make(map[string]string, len(defs))
	for _, d := range defs {
		if d.err == nil {
			prints[d.Name] = d.fingerprint()
		}
	}
	return s.opts.Pins.Sight(ctx, s.spec.Name, prints, !s.pinned())
}

// allows: the entry and the settings must both let a tool pass. The settings may name it as models do, as SERVER/TOOL, or alone.
func (s *server) allows(tool string) bool {
	return s.spec.offers(tool) && matchesAny(s.opts.AllowedTools, toolName(s.spec.Name, tool), s.spec.Name+"/"+tool, tool)
}

func (s *server) pinned() bool {
	if s.spec.Pin != nil {
		return *s.spec.Pin
	}
	return s.opts.PinTools
}

// add makes a tool of a definition, or notes why there is none.
func (c *catalog) add(s *server, d definition) {
	if d.err != nil {
		c.note("a tool cannot be used: %v", d.err)
		return
	}
	traits := tools.SideEffect | tools.Privileged | tools.Outside
	if matchesAny(s.spec.ReadOnlyTools, d.Name) {
		traits = tools.ReadOnly | tools.Privileged | tools.Outside
	}
	name := toolName(s.spec.Name, d.Name)
	tool, err := tools.NewDynamic(tools.Dynamic{
		Name: name, Doc: d.doc(s.spec.Name), Schema: d.InputSchema, Traits: traits, Timeout: s.longest() + callSlack,
		Run: func(ctx context.Context, call tools.Call, args json.RawMessage) (string, error) {
			return s.run(ctx, d.Name, call, args)
		},
	})
	if err == nil && slices.Contains(c.names, name) {
		err = fmt.Errorf("there is another tool called %s", name)
	}
	if err != nil {
		c.note("the tool %q cannot be used: %v", clip(d.Name, 60), clip(err.Error(), 200))
		return
	}
	c.tools, c.names = append(c.tools, tool), append(c.names, name)
}
