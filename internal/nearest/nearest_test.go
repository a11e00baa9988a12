package nearest_test

import (
	"testing"

	"github.com/corebot/corebot/internal/nearest"
)

func TestTheNameWithTheFewestEditsIsNearest(t *testing.T) {
	known := []string{"/new", "/stop", "/steer", "/status"}
	for misspelt, want := range map[string]struct {
		name  string
		edits int
	}{
		"/sto": {"/stop", 1}, "/stat": {"/status", 2},
		"/stpo": {"/stop", 2}, "/statsu": {"/status", 2}, "/ne": {"/new", 1},
		"/stop": {"/stop", 0}, "": {"/new", 4},
	} {
		if name, edits := nearest.Name(misspelt, known); name != want.name || edits != want.edits {
			t.Errorf("%q is nearest to %q with %d edits, want %+v", misspelt, name, edits, want)
		}
	}
	if name, _ := nearest.Name("x", nil); name != "" {
		t.Errorf("without names it is %q", name)
	}
}
