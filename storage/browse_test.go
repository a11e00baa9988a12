package storage

import (
	"strings"
	"testing"
)

func TestWhatClientsBrowseIsFoundWithoutAScan(t *testing.T) {
	path := planned(t)
	for name, q := range map[string]*query{
		"chatsBehind": chatsBehind, "saidBefore": saidBefore, "answers": answers,
		"selectClientCall": selectClientCall, "trimClientCalls": trimClientCalls,
	} {
		if got := plan(t, path, q); got == "" || strings.Contains(got, "SCAN") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
