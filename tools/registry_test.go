package tools_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

func TestAToolThatCannotBeOfferedIsRefused(t *testing.T) {
	run := func(context.Context, tools.Call, noArgs) (string, error) { return "", nil }
	good := tools.New("fs.read", "Read.", tools.ReadOnly, run)
	for name, all := range map[string][]tools.Tool{
		"two of one name":       {good, good},
		"no name":               {tools.New("", "Doc.", tools.ReadOnly, run)},
		"a bad name":            {tools.New("fs read", "Doc.", tools.ReadOnly, run)},
		"a name with an end":    {tools.New("fs.read\n", "Doc.", tools.ReadOnly, run)},
		"a long name":           {tools.New(strings.Repeat("a.", 70)+"a", "Doc.", tools.ReadOnly, run)},
		"no description":        {tools.New("x", " \n", tools.ReadOnly, run)},
		"no traits":             {tools.New("x", "Doc.", 0, run)},
		"privileged only":       {tools.New("x", "Doc.", tools.Privileged, run)},
		"read only with effect": {tools.New("x", "Doc.", tools.ReadOnly|tools.SideEffect, run)},
		"repeating side effect": {tools.New("x", "Doc.", tools.Idempotent|tools.SideEffect, run)},
		"unknown traits":        {tools.New("x", "Doc.", 1<<9|tools.ReadOnly, run)},
		"a timeout below zero":  {tools.New("x", "Doc.", tools.ReadOnly, run, tools.Timeout[noArgs](-1))},
		"not made by New":       {{}},
		"no struct": {tools.New("x", "Doc.", tools.ReadOnly,
			func(context.Context, tools.Call, string) (string, error) { return "", nil })},
	} {
		if _, err := tools.NewRegistry(all...); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := tools.NewRegistry(tools.New("x", "Doc.", tools.ReadOnly,
		func(context.Context, tools.Call, struct{ F func() }) (string, error) { return "", nil })); err == nil {
		t.Error("arguments that have no schema were taken")
	}
	if _, err := tools.NewRegistry(good); err != nil {
		t.Error(err)
	}
}
