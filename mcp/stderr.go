package mcp

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/redact"
)

const (
	maxLogLine  = 1 << 10 // bytes of a line that are logged
	logWindow   = 10 * time.Second
	linesLogged = 20 // in a window
)

// logOutput writes what a program says on its standard error to our log, until it has no more: without what it was configured with that may be
// secret, lines cut short, and no more than a few. What is not logged is read all the same, or the program would stand still.
func logOutput(r io.Reader, log zerolog.Logger, secrets *redact.Redactor) {
	in := bufio.NewReaderSize(r, maxLogLine)
	var since time.Time
	logged, left := 0, 0
	for {
		line, err := in.ReadSlice('\n')
		if now := time.Now(); now.Sub(since) > logWindow {
			if left > 0 {
				log.Warn().Int("lines", left).Msg("an MCP server wrote more than is logged")
			}
			since, logged, left = now, 0, 0
		}
		switch text := secrets.Text(redact.Visible(string(line))); {
		case logged >= linesLogged:
			left++
		case len(text) > 0:
			logged++
			log.Info().Str("stderr", text).Msg("an MCP server says")
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is cut short
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}
