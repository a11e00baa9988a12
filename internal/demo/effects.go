package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/corebot/corebot/internal/load"
)

// A message of the scene of side effects asks for this many calls in one answer. Corebot is killed when so many lines
// are written.
const linesOfMessage = 60

var killsAt = []int{5, 20, 35}

// sideEffects kills Corebot in the middle of a turn whose tool calls each append a line to a file.
func (d *demo) sideEffects(ctx context.Context) (s Scene, err error) {
	s.Promise = "Finished side effects are not repeated. A turn ends in one commit."
	s.Did = fmt.Sprintf("Sent a message that makes %d tool calls, each of which appends a line to a file.\n"+
		"Killed Corebot in the middle of the turn when %d, %d and %d lines were there, and started it again.",
		linesOfMessage, killsAt[0], killsAt[1], killsAt[2])
	e := &effects{demo: d}
	// A kill that comes when the last line is written hits nothing: another message is sent then.
	for e.sent < 5 && e.hits < len(killsAt) {
		if err := e.send(ctx); err != nil {
			return s, err
		}
	}
	d.said[e.chat()] = e.sent
	all, err := d.replies(ctx, e.chat(), e.sent)
	if err != nil {
		return s, err
	}
	if err := e.count(ctx); err != nil {
		return s, err
	}
	s.Counts = []Count{
		{"kills that hit the middle of the turn", len(killsAt), e.hits},
		{"reply to the message", e.sent, len(all)},
		{"tool calls with an outcome in the audit trail", e.sent * linesOfMessage, e.finished + e.unknown},
		{"lines written twice", 0, e.twice},
		{"lines of finished calls that are missing", 0, e.missing},
	}
	s.Note = fmt.Sprintf("Calls that a kill cut off: %d. Corebot did not run them again, and told the model so.",
		e.unknown)
	return s, nil
}

// effects are the messages of the scene, and what became of their calls.
type effects struct {
	*demo
	sent, hits                        int
	finished, unknown, twice, missing int
}

func (e *effects) chat() string { return "notes" }

// line is what one call writes. No line is a part of another.
func line(message, n int) string { return fmt.Sprintf("line %d-%02d;", message, n) }

// send sends a message, and kills Corebot during its turn until all kills have hit or its lines are written.
func (e *effects) send(ctx context.Context) error {
	e.sent++
	var calls strings.Builder
	for n := range linesOfMessage {
		args, err := json.Marshal(map[string]string{"scope": "chat", "content": line(e.sent, n)})
		if err != nil {
			return err
		}
		fmt.Fprintf(&calls, "/tool memory.write %s\n", args)
	}
	if _, err := e.client.Post(ctx, load.Message{
		ID: fmt.Sprintf("notes-%d", e.sent), ChatID: e.chat(), Sender: "demo", Content: calls.String(),
	}); err != nil {
		return err
	}
	for e.hits < len(killsAt) {
		if err := e.awaitLines(ctx, killsAt[e.hits]); err != nil {
			return err
		}
		e.kill()
		written, err := e.written()
		if err != nil {
			return err
		}
		if err := e.start(ctx); err != nil {
			return err
		}
		if strings.Contains(written, line(e.sent, linesOfMessage-1)) {
			return nil // too late: the turn was at its end
		}
		e.hits++
	}
	return nil
}

// awaitLines waits until about so many calls of the message have written their line.
func (e *effects) awaitLines(ctx context.Context, n int) error {
	for {
		written, err := e.written()
		if err != nil || strings.Contains(written, line(e.sent, n)) ||
			strings.Contains(written, line(e.sent, n+1)) { // the one before may have been cut off
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for line %d of message %d: %w", n, e.sent, err)
		}
	}
}

// written is the file that the calls write: the memory of the chat.
func (e *effects) written() (string, error) {
	files, err := filepath.Glob(filepath.Join(e.home(), "workspace", "chats", "*", "MEMORY.md"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	text, err := os.ReadFile(files[0])
	return string(text), err
}

// call is a row of the audit trail.
type call struct {
	Outcome string
	Args    struct{ Content string }
}

// count compares the file with the audit trail.
func (e *effects) count(ctx context.Context) error {
	written, err := e.written()
	if err != nil {
		return err
	}
	calls, err := rows[call](ctx, e.program, "audit", "--json", "--tool", "memory.write", "--limit", everyRow)
	if err != nil {
		return err
	}
	for _, c := range calls {
		times := strings.Count(written, c.Args.Content)
		if times > 1 {
			e.twice++
		}
		switch c.Outcome {
		case "success":
			e.finished++
			if times == 0 {
				e.missing++
			}
		case "unknown":
			e.unknown++
		}
	}
	return nil
}
