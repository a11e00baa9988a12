package exchange

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that a provider can ask for.
const MaxRetryAfter = time.Hour

// retryAfter is what a provider asks for in its headers, at most [MaxRetryAfter]; nonsense asks for nothing. The header in milliseconds,
// which OpenAI and others send beside the common one, is the exact one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d := seconds(h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	common := h.Get("Retry-After")
	if d := seconds(common, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(strings.TrimSpace(common)); err == nil {
		return min(max(0, at.Sub(now)), MaxRetryAfter)
	}
	return 0
}

// seconds reads a number of units; fractions count.
func seconds(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	switch {
	case err != nil && n == 0, !(n > 0): // a number that is out of range is still one: infinity
		return 0
	case n >= float64(MaxRetryAfter/unit):
		return MaxRetryAfter
	}
	return time.Duration(n * float64(unit))
}
