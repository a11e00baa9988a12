package vector

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestAPackedVectorKeepsItsDirection(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 384, 1536, MaxDimensions} {
		for range 20 {
			a, b := make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = float32(r.NormFloat64())
				b[i] = a[i] + float32(r.NormFloat64())
			}
			pa, err := Pack(a)
			if err != nil {
				t.Fatal(err)
			}
			pb, err := Pack(b)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := Cosine(pa, pb)
			if want := cosine(a, b); !ok || math.Abs(got-want) > 0.02 || n >= 384 && math.Abs(got-want) > 0.01 {
				t.Errorf("%d dimensions: %v, want %v", n, got, want)
			}
			if same, _ := Cosine(pa, pa); math.Abs(same-1) > 1e-6 {
				t.Errorf("with itself: %v", same)
			}
			if Dimensions(pa) != n {
				t.Errorf("%d dimensions, want %d", Dimensions(pa), n)
			}
		}
	}
}

// The largest products of the largest vector still fit the sum.
func TestTheSumDoesNotOverflow(t *testing.T) {
	v := make([]float32, MaxDimensions)
	for i := range v {
		v[i] = -1
	}
	p, err := Pack(v)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := Cosine(p, p); !ok || math.Abs(c-1) > 1e-6 {
		t.Errorf("the cosine is %v", c)
	}
}

func TestWhatIsNoVectorIsRefused(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, v := range [][]float32{nil, {}, {0, 0}, {inf, 1}, {nan, 1}, {nan}, make([]float32, MaxDimensions+1)} {
		if _, err := Pack(v); !errors.Is(err, ErrUnusable) {
			t.Errorf("%v of %d: %v", v[:min(len(v), 3)], len(v), err)
		}
	}
}

func TestVectorsOfDifferentModelsAreNotCompared(t *testing.T) {
	a, _ := Pack([]float32{1, 2})
	b, _ := Pack([]float32{1, 2, 3})
	for _, pair := range [][2][]byte{{a, b}, {a, nil}, {nil, nil}, {a[:head], a[:head]}} {
		if _, ok := Cosine(pair[0], pair[1]); ok {
			t.Errorf("%v and %v are compared", pair[0], pair[1])
		}
	}
}

func BenchmarkCosine384(b *testing.B) {
	v := make([]float32, 384)
	for i := range v {
		v[i] = rand.Float32() - 0.5
	}
	p, _ := Pack(v)
	for b.Loop() {
		Cosine(p, p)
	}
}
