package isolation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// profile is what the arguments of a program may be, one pattern for each: the argument itself; a beginning and "*" for all that begin so; "*" for
// any that is not empty and no option; and, at the end, "**" for any number of those. It lists what may be, and never what may not: whatever other way a
// program has to spell an option, it is refused.
type profile []string

// The patterns that stand for more than themselves.
const (
	anyOne  = "*"
	anyMore = "**"
)

// parseProfile reads the words of an entry behind its name.
func parseProfile(words []string) (profile, error) {
	for i, word := range words {
		switch {
		case word == "":
			return nil, errors.New("its words have one space between them")
		case word == anyMore && i < len(words)-1:
			return nil, errors.New("** stands at the end")
		case word != anyMore && strings.Contains(strings.TrimSuffix(word, "*"), "*"):
			return nil, fmt.Errorf("the argument %q: a * stands at the end of a word", word)
		}
	}
	return words, nil
}

// allows says whether the arguments are as the profile has them.
func (p profile) allows(args []string) bool {
	if n := len(p); n > 0 && p[n-1] == anyMore {
		p = p[:n-1]
		for len(args) > len(p) && isOperand(args[len(args)-1]) {
			args = args[:len(args)-1]
		}
	}
	return slices.EqualFunc(p, args, matches)
}

// isOperand: no option, however it is spelt. The empty argument is none either: programs drop it, and what follows would take its place.
func isOperand(arg string) bool { return arg != "" && arg[0] != '-' }

func matches(pattern, arg string) bool {
	beginning, open := strings.CutSuffix(pattern, "*")
	switch {
	case pattern == anyOne:
		return isOperand(arg)
	case open:
		return strings.HasPrefix(arg, beginning)
	}
	return arg == pattern
}

func (p profile) String() string { return strings.Join(p, " ") }
