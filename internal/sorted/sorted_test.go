package sorted

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestItSortsAsSlicesDoes(t *testing.T) {
	t.Parallel()
	type pair struct{ key, place int }
	byKey := func(a, b pair) int { return cmp.Compare(a.key, b.key) }
	for n := range 200 {
		list := make([]pair, n)
		for i := range list {
			list[i] = pair{rand.N(20), i}
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byKey)
		if By(list, byKey); !slices.Equal(list, want) {
			t.Fatalf("%v is not %v", list, want)
		}
	}
}
