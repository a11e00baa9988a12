package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

const (
	historyEntries    = 500      // prompts that are kept
	historyEntryBytes = 64 << 10 // a longer prompt is not remembered: half of it would be worse than none
	historyFileBytes  = 4 << 20  // over this, or over twice the entries, the file is written anew
	historyMode       = 0o600    // what people type is nobody else's business
)

// prompt is something the user sent. The id ties a reply that comes in a later session to its question.
type prompt struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// history remembers the newest prompts, oldest first, as JSON lines in a file. It is a convenience: two terminals may
// append to one file at once, and what one of them adds while the other rewrites it may be forgotten.
type history struct {
	path    string // empty: in memory only
	prompts []prompt
}

// openHistory reads what the file has; lines that are damaged are skipped, a file that is not there is an empty
// history. With an error it still returns a history that works, in memory.
func openHistory(path string) (*history, error) {
	h := &history{}
	if path == "" {
		return h, nil
	}
	data, err := readTail(path, historyFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		h.path = path
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read the prompt history %s: %w", path, err)
	}
	h.path = path
	lines := h.parse(data)
	if lines > 2*historyEntries || len(data) >= historyFileBytes {
		return h, h.rewrite()
	}
	return h, nil
}

// readTail returns the last limit bytes of a file and makes it the owner's only, should it be open to others.
func readTail(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if info.Mode().Perm() != historyMode {
		if err := f.Chmod(historyMode); err != nil {
			return nil, err
		}
	}
	if over := info.Size() - limit; over > 0 {
		if _, err := f.Seek(over, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// parse takes the prompts out of the lines and returns how many lines there were.
func (h *history) parse(data []byte) (lines int) {
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, historyFileBytes+1)
	for s.Scan() {
		lines++
		var p prompt
		if json.Unmarshal(s.Bytes(), &p) == nil && p.Text != "" {
			h.keep(p)
		}
	}
	return lines
}

func (h *history) keep(p prompt) {
	if len(p.Text) > historyEntryBytes {
		return
	}
	h.prompts = append(h.prompts, p)
	if over := len(h.prompts) - historyEntries; over > 0 {
		h.prompts = h.prompts[over:]
	}
}

// add remembers a prompt. The error is about the file; in memory it is remembered all the same.
func (h *history) add(p prompt) error {
	h.keep(p)
	if h.path == "" || len(p.Text) > historyEntryBytes {
		return nil
	}
	line, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the prompt history: %w", err)
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, historyMode)
	if err != nil {
		return fmt.Errorf("write the prompt history: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the prompt history: %w", err)
	}
	return nil
}

// rewrite replaces the file by the prompts that are kept.
func (h *history) rewrite() error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, p := range h.prompts {
		if err := e.Encode(p); err != nil {
			return fmt.Errorf("shorten the prompt history: %w", err)
		}
	}
	tmp := h.path + ".new"
	if err := os.WriteFile(tmp, b.Bytes(), historyMode); err != nil {
		return fmt.Errorf("shorten the prompt history: %w", err)
	}
	if err := os.Rename(tmp, h.path); err != nil {
		return fmt.Errorf("shorten the prompt history: %w", err)
	}
	return nil
}

// question returns the text of an earlier prompt.
func (h *history) question(id string) (text string, found bool) {
	for i := len(h.prompts) - 1; i >= 0; i-- {
		if h.prompts[i].ID == id {
			return h.prompts[i].Text, true
		}
	}
	return "", false
}
