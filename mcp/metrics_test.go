package mcp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/mcp"
)

func TestTheSeriesOfAServerAreThereBeforeItsFirstCall(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := everything(mcp.Options{})
	o.Metrics = registry
	newRig(t, o, map[string]map[string]any{"off": {"command": "/nothing", "disabled": true}})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if f.GetName() != "corebot_mcp_calls_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			got = append(got, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
		}
	}
	want := []string{"failed=0", "ok=0"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
