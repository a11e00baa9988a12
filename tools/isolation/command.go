package isolation

import (
	"errors"
	"fmt"
	"strings"
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
