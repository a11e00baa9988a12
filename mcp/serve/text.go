package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
)

// fit makes a text that others wrote fit for a result: visible characters, no secrets, no tokens of chat templates, and at most max bytes. Secrets
// go before the cut: half of one would not be known.
func (s *Service) fit(text string, max int) (shown string, truncated bool) {
	text = outside.Text(s.opts.Redactor.Text(redact.Visible(text)))
	if len(text) <= max {
		return text, false
	}
	return runes.Head(text, max), true
}

// encode writes a result as one line of JSON. It stays JSON when secrets are taken out of it as of any text: where that would swallow the escape of
// a quote, quotes and backslashes are written in a way that has neither.
func (s *Service) encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if !json.Valid([]byte(s.opts.Redactor.Text(text))) {
		text = strings.NewReplacer(`\"`, `\u0022`, `\\`, `\u005c`).Replace(text)
	}
	return text, nil
}
