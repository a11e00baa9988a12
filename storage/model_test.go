package storage_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/corebot/corebot/bus/bustest"
	"github.com/corebot/corebot/internal/long"
)

var (
	modelOperations = long.Int("model.ops", 2_000, 20_000,
		"operations of the random histories that are compared with a model, in all")
	modelSeed = flag.Uint64("model.seed", 0, "of the first of them")
)

// modelHistories is how many histories the operations are divided among.
const modelHistories = 4

func TestRandomHistoriesAgreeWithAModelOfTheLanes(t *testing.T) {
	for i := range uint64(modelHistories) {
		t.Run(fmt.Sprint("seed ", *modelSeed+i), func(t *testing.T) {
			t.Parallel()
			bustest.RunModel(t, openForSuite, bustest.ModelOptions{
				Operations: modelOperations() / modelHistories,
				Seed:       *modelSeed + i,
			})
		})
	}
}
