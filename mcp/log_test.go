package mcp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// logLines is a log that can be looked at.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) logger() zerolog.Logger { return zerolog.New(l) }

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) await(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(l.String(),
		want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log has no %q:\n%s", want, l.String())
		}
	}
}

// processesOf are the processes with a mark that begins so.
func processesOf(mark string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, []byte("COREBOT_MCP_SERVER="+mark)) {
			found = append(found, f)
		}
	}
	return found
}

// requireGone waits until no process of a server is left.
func requireGone(t *testing.T, mark string) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := processesOf(mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left over: %v", left)
		}
	}
}
