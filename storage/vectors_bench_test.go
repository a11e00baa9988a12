package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/corebot/corebot/internal/vector"
)

// BenchmarkNearest compares a question with the vectors of one chat that has 100,000, beside another chat with as many.
func BenchmarkNearest(b *testing.B) {
	for _, dimensions := range []int{384, 1536} {
		b.Run(fmt.Sprint(dimensions), func(b *testing.B) {
			db := openTest(b, b.TempDir())
			r := rand.New(rand.NewPCG(1, 2))
			numbers := make([]float32, dimensions)
			random := func() []byte {
				for i := range numbers {
					numbers[i] = float32(r.NormFloat64())
				}
				packed, err := vector.Pack(numbers)
				must(b, err)
				return packed
			}
			insert := &query{`INSERT INTO vectors (id, generation, vector) VALUES (?, 1, ?)`}
			for from := 0; from < 200_000; from += 1000 {
				must(b, db.write(context.Background(), "bench", func(t *tx) error {
					for i := from; i < from+1000; i++ {
						id, _ := spot(ofHistory, int64(i%2), int64(i))
						if _, err := t.exec(insert, id, random()); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			v, q := NewVectors(db, VectorOptions{}), question{random(), 1}
			for b.Loop() {
				if ids, err := v.nearest(b.Context(), ofHistory, []int64{1}, q); err != nil || len(ids) != fusedDepth {
					b.Fatal(len(ids), err)
				}
			}
		})
	}
}
