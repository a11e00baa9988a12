package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/corebot/corebot"
)

// turncoat has every tool changed in one look, and none in the next.
type turncoat struct{ looks atomic.Int64 }

func (p *turncoat) Sight(_ context.Context, _ string, prints map[string]string) (map[string]corebot.ToolPin, error) {
	known, pinned := map[string]corebot.ToolPin{}, p.looks.Add(1)%2 == 0
	for tool, print := range prints {
		known[tool] = corebot.ToolPin{Tool: tool, Pinned: "another", Seen: print}
		if pinned {
			known[tool] = corebot.ToolPin{Tool: tool, Pinned: print, Seen: print}
		}
	}
	return known, nil
}

func (p *turncoat) Peek(context.Context, string, map[string]string) (map[string]corebot.ToolPin, error) {
	return nil, nil
}

// notes keeps the arguments of events.
type notes struct{ all []string }

func (n *notes) Note(_ context.Context, e corebot.AuditEvent) error {
	n.all = append(n.all, e.Args)
	return nil
}

// A server can change all its tools every two seconds, for months. The audit must not grow by its will.
func TestAServerThatChangesItsToolsAllTheTimeDoesNotFillTheAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trail := &notes{}
		o := Options{AllowedTools: []string{"*"}, Pins: &turncoat{}, Trail: trail}.withDefaults()
		m, err := newMetrics(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(Spec{Name: "one"}, &o, m, func() {})
		const tools = 200
		for i := range tools {
			s.defs = append(s.defs, define(json.RawMessage(fmt.Sprintf(
				`{"name":"do%d","inputSchema":{"type":"object"}}`, i))))
		}
		const looks = 4
		for range 2 * looks {
			time.Sleep(relistEvery)
			if err := s.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(trail.all); n != changesTold+1 || !strings.Contains(trail.all[n-1], `"more":150`) {
			t.Errorf("%d events in one window; the last is %s", n, trail.all[n-1])
		}
		if n := testutil.ToFloat64(m.changes); n != looks*tools {
			t.Errorf("counted %v changes", n)
		}
		time.Sleep(tellWindow + time.Second)
		if err := s.look(t.Context()); err != nil || len(trail.all) != 2*(changesTold+1) {
			t.Errorf("%d events after a look in the next window: %v", len(trail.all), err)
		}
	})
}
