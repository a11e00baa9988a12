package bench

import (
	"math"
	"slices"
	"time"
)

// Series is one quantity measured several times, in the order of the rounds.
type Series []float64

// Median is the middle value; of an even number, the mean of the two middle ones. An empty series has none: NaN.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// over divides round by round: noise that lasted a round is in both.
func (s Series) over(base Series) Series {
	out := make(Series, min(len(s), len(base)))
	for i := range out {
		out[i] = s[i] / base[i]
	}
	return out
}

// latencies are the times of many operations.
type latencies []time.Duration

// quantile is the least time that the share q of all operations did not exceed, in milliseconds; 0 for no operations.
func (l latencies) quantile(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return milliseconds(sorted[min(max(rank, 1), len(sorted))-1])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is a rate; zero if no time passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
