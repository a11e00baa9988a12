package storage

import (
	"maps"
	"time"

	"github.com/corebot/corebot"
)

// maxRates bounds the keys of one [rates].
const maxRates = 20_000

// rates remember from when on a key is free again, by [nextFree]. They are in memory, and follow the writer's transactions as [flows] do. Of
// more than [maxRates] keys those that were used longest ago are forgotten, and free.
type rates[K comparable] struct {
	young, aged map[K]int64 // unix milliseconds
	undo        *[]func()
}

func newRates[K comparable](undo *[]func()) rates[K] {
	return rates[K]{young: map[K]int64{}, undo: undo}
}

// freeAt is when a key is free, in unix milliseconds.
func (r *rates[K]) freeAt(k K) int64 {
	if at, ok := r.young[k]; ok {
		return at
	}
	return r.aged[k]
}

// take uses a key once.
func (r *rates[K]) take(k K, now time.Time, rate corebot.Rate) {
	was := r.freeAt(k)
	*r.undo = append(*r.undo, func() { r.put(k, was) })
	r.put(k, nextFree(was, now, rate))
}

func (r *rates[K]) put(k K, at int64) {
	if _, ok := r.young[k]; !ok && len(r.young) >= maxRates/2 {
		r.young, r.aged = map[K]int64{}, r.young
	}
	r.young[k] = at
}

// shift has keys be free in time when the wall clock was stepped back.
func (r *rates[K]) shift(step time.Duration) {
	for _, m := range []map[K]int64{r.young, r.aged} {
		for k := range maps.Keys(m) {
			m[k] += step.Milliseconds()
		}
	}
}
