// Package lazy makes what most processes of the program never use when it is used first. A command such as
// `corebot send` ends in a few milliseconds, and to compile every regular expression would be a sixth of them.
//
// A pattern is compiled once, also where goroutines use it first at once. A pattern that is wrong panics at its first
// use, so each has a test that uses it.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles a regular expression at its first use.
func Regexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
