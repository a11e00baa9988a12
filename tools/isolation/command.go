package isolation

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

const (
	maxArgs     = 256
	maxArgBytes = 64 << 10 // of all arguments together
)

// Errors that callers decide on. They are compared with errors.Is.
var (
	ErrNotAllowed  = errors.New("is not on the list of allowed programs")
	ErrBusy        = errors.New("no worker became free in time")
	ErrWorker      = errors.New("the worker failed")
	ErrUnavailable = errors.New("commands cannot be isolated on this machine")
)

// Command is a program to run for a conversation.
type Command struct {
	Key     corebot.Key   // whose directory it works in
	Argv    []string      // the first is an entry of the allowlist, as it is written there without its mark
	Timeout time.Duration // of waiting for a worker and running, together; over zero
}

// Ended is how a program ended.
type Ended struct {
	Output   string        // standard output and standard error as they came, up to the cap
	Dropped  int64         // bytes of output beyond the cap
	Exit     int           // the exit code; -1 if a signal ended it
	Signal   string        // what ended it, if that was a signal
	TimedOut bool          // it was killed at its deadline
	DiskFull bool          // it was killed because the disk was full
	Took     time.Duration // from its start to its end
}

// checkArgv refuses what no program could be given.
func checkArgv(argv []string) error {
	total := 0
	for _, arg := range argv {
		total += len(arg) + 1
		if strings.IndexByte(arg, 0) >= 0 {
			return fmt.Errorf("%w: argv: an argument has a NUL byte", corebot.ErrInvalid)
		}
	}
	switch {
	case len(argv) == 0 || argv[0] == "":
		return fmt.Errorf("%w: argv: it names no program", corebot.ErrInvalid)
	case len(argv) > maxArgs:
		return fmt.Errorf("%w: argv: %d arguments, the limit is %d", corebot.ErrInvalid, len(argv), maxArgs)
	case total > maxArgBytes:
		return fmt.Errorf("%w: argv: %d bytes, the limit is %d", corebot.ErrInvalid, total, maxArgBytes)
	}
	return nil
}

// output keeps the beginning of what a program prints, and counts the rest. It never blocks the program for good: what
// is too much is read and dropped.
type output struct {
	mu      sync.Mutex
	limit   int
	kept    []byte
	dropped int64
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := min(len(p), o.limit-len(o.kept))
	o.kept = append(o.kept, p[:keep]...)
	o.dropped += int64(len(p) - keep)
	return len(p), nil
}

func (o *output) take() (text string, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept), o.dropped
}

// fixedEnv are the variables that every program has.
func fixedEnv(home, tmp string) []string {
	return []string{"PATH=" + searchPath, "HOME=" + home, "TMPDIR=" + tmp, "LANG=C.UTF-8"}
}

// checkEnv refuses names of tools.allowed_env that no variable has, that are fixed, or that are Corebot's own.
func checkEnv(names []string) error {
	word := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for _, name := range names {
		switch {
		case !word.MatchString(name):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %q is not the name of a variable", name),
				"names are letters, digits and _")
		case slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG"}, name):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %s has the same value for every program", name),
				"take it out of the list")
		case strings.HasPrefix(name, "COREBOT_"):
			return corebot.WithHint(fmt.Errorf("tools.allowed_env: %s is a setting of Corebot", name),
				"programs are not to see it: take it out of the list")
		}
	}
	return nil
}

// environment is what a program sees: the fixed variables, and those that were listed and are set.
func environment(home, tmp string, allowed []string) []string {
	env := fixedEnv(home, tmp)
	for _, name := range allowed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// profile is what the arguments of a program may be, one pattern for each: the argument itself; a beginning and "*" for
// all that begin so; "*" for any that is not empty and no option; and, at the end, "**" for any number of those. It
// lists what may be, and never what may not: whatever other way a program has to spell an option, it is refused.
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

// isOperand: no option, however it is spelt. The empty argument is none either: programs drop it, and what follows
// would take its place.
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
