package observability

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/apptest"
)

func TestAMethodThatAnAddressDoesNotHaveIsRefusedWithThoseThatItHas(t *testing.T) {
	s, err := NewServer(Options{
		Addr: "127.0.0.1:0", Gather: NewRegistry("v1"), Log: zerolog.Nop(),
		Ready:  func(context.Context) []string { return nil },
		Status: func(context.Context) (any, error) { return 1, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // of a test
	apptest.WantMethods(t, s.http.Handler, false, slices.Collect(maps.Keys(s.patterns()))...)
	for _, path := range []string{"/", "/nowhere", "/status/1"} {
		if a := apptest.Ask(s.http.Handler, "GET", path, ""); a.Code != http.StatusNotFound {
			t.Errorf("%s is %d", path, a.Code)
		}
	}
}
