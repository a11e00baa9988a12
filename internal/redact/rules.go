package redact

import (
	_ "embed"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"

	"github.com/corebot/corebot/internal/lazy"
)

//go:embed rules.toml
var rulesFile string

// rule is a kind of secret that can be told by its look; rules.toml says what its fields mean.
type rule struct {
	ID          string
	Description string
	Regex       string
	SecretGroup int
	Spaces      bool
	Keywords    []string
	Entropy     float64

	pattern func() *regexp.Regexp // compiled by the first text that has a keyword
}

// builtIn are the rules of this program.
var builtIn = sync.OnceValue(func() []rule {
	rules, err := readRules(rulesFile)
	if err != nil { // a test reads them
		panic(err)
	}
	return rules
})

// readRules reads a file of rules. It does not compile their patterns.
func readRules(text string) ([]rule, error) {
	var file struct{ Rules []rule }
	if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&file); err != nil {
		return nil, fmt.Errorf("read the rules of redaction: %w", err)
	}
	for i := range file.Rules {
		r := &file.Rules[i]
		if r.ID == "" || len(r.Keywords) == 0 || slices.Contains(r.Keywords, "") {
			return nil, fmt.Errorf("rule %q: want an id and keywords", r.ID)
		}
		r.pattern = lazy.Regexp(r.Regex)
	}
	return file.Rules, nil
}

// redact returns s with the rule's secrets replaced by [Mark].
func (r *rule) redact(s string) string {
	var out strings.Builder
	copied := 0
	for piece := range r.pieces(s) {
		for _, m := range r.pattern().FindAllStringSubmatchIndex(s[piece[0]:piece[1]], -1) {
			from, to := piece[0]+m[2*r.SecretGroup], piece[0]+m[2*r.SecretGroup+1]
			if r.Entropy > 0 && entropy(s[from:to]) < r.Entropy {
				continue
			}
			out.WriteString(s[copied:from])
			out.WriteString(Mark)
			copied = to
		}
	}
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

const spaces = " \t\n\f\r" // of a regex's \s

// pieces are the parts of s in which the pattern can match: words with a keyword, or all of s for a rule with spaces.
func (r *rule) pieces(s string) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		next := make([]int, len(r.Keywords)) // where each keyword stands next; found once, so that the time is linear
		for end := 0; ; {
			first := len(s)
			for i, k := range r.Keywords {
				if next[i] < end || end == 0 {
					if next[i] = strings.Index(s[end:], k); next[i] < 0 {
						next[i] = len(s)
					} else {
						next[i] += end
					}
				}
				first = min(first, next[i])
			}
			if first == len(s) {
				return
			}
			begin := 0
			if end, begin = len(s), 0; !r.Spaces {
				begin = strings.LastIndexAny(s[:first], spaces) + 1
				if n := strings.IndexAny(s[first:], spaces); n >= 0 {
					end = first + n
				}
			}
			if !yield([2]int{begin, end}) || end == len(s) {
				return
			}
		}
	}
}

// entropy is Shannon's, in bits a byte: of "aaaa" 0, of random hexadecimal digits nearly 4.
func entropy(s string) (bits float64) {
	var count [256]float64
	for i := range len(s) {
		count[s[i]]++
	}
	for _, n := range count {
		if n > 0 {
			p := n / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
