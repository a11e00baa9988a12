package observability

import (
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// Level is a threshold that can be moved while a logger is in use: a hook that drops what is below it. The zero Level lets
// everything from debug on pass.
type Level struct{ least atomic.Int32 }

// Set moves the threshold: debug, info, warn or error.
func (l *Level) Set(name string) error {
	level, err := parseLevel(name)
	if err == nil {
		l.least.Store(int32(level))
	}
	return err
}

// Run implements zerolog.Hook.
func (l *Level) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if int32(level) < l.least.Load() {
		e.Discard()
	}
}

func parseLevel(name string) (zerolog.Level, error) {
	level, err := zerolog.ParseLevel(name)
	if err != nil || level < zerolog.DebugLevel || level > zerolog.ErrorLevel {
		return zerolog.Disabled, fmt.Errorf("%w: log level %q: want debug, info, warn or error", corebot.ErrInvalid, name)
	}
	return level, nil
}
