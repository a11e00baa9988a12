package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
)

// callSlack is the time of a call beside the server's: to wait for its turn, to keep what it returned.
const callSlack = 15 * time.Second

// patience is how long a call may go on without a report of progress; longest is how long with them.
func (s *server) patience() time.Duration { return cmp.Or(s.spec.Timeout, s.opts.Timeout) }

func (s *server) longest() time.Duration {
	return max(cmp.Or(s.spec.MaxTime, s.opts.MaxTime), s.patience())
}

// connectTime is how long the server may take to be ready, and to give its tools.
func (s *server) connectTime() time.Duration {
	return cmp.Or(s.spec.ConnectTimeout, s.opts.ConnectTimeout)
}

// run is one call of a tool.
func (s *server) run(ctx context.Context, tool string, call tools.Call, args json.RawMessage) (string, error) {
	text, outcome, err := s.ask(ctx, tool, call, args)
	s.metrics.called(s.spec.Name, outcome)
	if said := (*toolError)(nil); err != nil && !errors.As(err, &said) { // what the tool itself says needs no frame
		busy := outcome == "busy" && ctx.Err() == nil // nobody was asked
		if err = fmt.Errorf("MCP server %s: %w", s.spec.Name, err); busy {
			err = tools.Own(err)
		}
	}
	return text, err
}

// ask makes the call once it is its turn and the server may be asked. outcome is for the metrics.
func (s *server) ask(ctx context.Context, tool string, call tools.Call,
	args json.RawMessage,
) (text, outcome string, err error) {
	if err := s.wait(ctx); err != nil {
		return "", "busy", err
	}
	defer func() { <-s.slots }()
	pass, ok, wait, cause := s.breaker.Enter(time.Now())
	if !ok {
		// the cause is of those: this call was not made
		return "", "resting", fmt.Errorf("its last calls had no answer, and the next one is made in %v: %v",
			wait.Round(time.Second), cause)
	}
	session, err := s.connected(ctx)
	if err != nil {
		s.breaker.Release(pass)
		return "", "down", err
	}
	began := time.Now()
	a, err := session.call(ctx, tool, args, s.patience(), s.longest())
	outcome = s.judge(ctx, pass, err)
	s.metrics.took(time.Since(began))
	if err != nil {
		return "", outcome, err
	}
	if a.err != nil {
		return "", "refused", fmt.Errorf("it refused the call: %s (%d)", clip(a.err.Message, 2_000), a.err.Code)
	}
	r := reader{
		artifacts: s.opts.Artifacts, caller: call.Caller, ctx: ctx,
		log: s.opts.Log.With().Str("server", s.spec.Name).Str("tool", tool).Logger(),
	}
	text, err = r.read(a.result)
	if err != nil {
		outcome = "tool_error"
	}
	return text, outcome, err
}

// wait waits for a free place among the calls of the server, no longer than a call may take.
func (s *server) wait(ctx context.Context) error {
	late := time.NewTimer(s.patience())
	defer late.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("%d other calls of it run, and none has ended within %v", cap(s.slots), s.patience())
	}
}

// judge tells the breaker how a call went: an answer is one, whatever it says; a caller who gave up tells nothing.
func (s *server) judge(ctx context.Context, pass breaker.Pass, err error) (outcome string) {
	switch {
	case err == nil:
		s.breaker.Succeeded(pass)
		return "ok"
	case ctx.Err() != nil:
		s.breaker.Release(pass)
		return "cancelled"
	}
	before := s.breaker.State(time.Now())
	s.breaker.Failed(pass, time.Now(), err)
	if after := s.breaker.State(time.Now()); after == breaker.Open && before != after {
		s.opts.Log.Warn().Err(err).Str("server", s.spec.Name).Msg("calls of an MCP server fail: it rests for a while")
		s.note("mcp.breaker", corebot.OutcomeError, map[string]any{
			"state": after.String(),
			"error": clip(err.Error(), 300),
		})
	}
	return "unsettled"
}

// result is what a tool gave, of every kind that the protocol has.
type result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	Type       string            `json:"resultType"`
}

// content is one piece of a result.
type content struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        string `json:"data"` // base64
	MIMEType    string `json:"mimeType"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Resource    *struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     *string `json:"blob"` // base64
	} `json:"resource"`
}

// toolError is what a tool said of its failure.
type toolError struct{ text string }

func (e *toolError) Error() string { return e.text }

// reader makes text of results. Content other than text becomes a file of the conversation.
type reader struct {
	artifacts tools.Artifacts // nil: what is not text is lost
	caller    corebot.Caller
	ctx       context.Context
	log       zerolog.Logger
}

// read makes a result what a model reads. A result that is an error is one, and so is an answer that is no result.
func (r *reader) read(raw json.RawMessage) (string, error) {
	var got result
	if err := json.Unmarshal(raw, &got); err != nil {
		return "", fmt.Errorf("%w that can be read: %w", tools.ErrUnsettled, err)
	}
	if got.Type == "input_required" {
		return "", fmt.Errorf("the server wants to ask a person something, which cannot be done here")
	}
	var parts []string
	for _, raw := range got.Content {
		parts = append(parts, r.piece(raw))
	}
	if text := structured(got.Structured, parts); text != "" {
		parts = append(parts, text)
	}
	text := strings.Join(parts, "\n\n")
	switch {
	case got.IsError:
		return "", &toolError{cmp.Or(text, "the tool failed and said nothing")}
	case text == "":
		return "(the tool returned nothing)", nil
	}
	return text, nil
}

// structured is the structured part of a result, unless the texts of the result say the same. For older clients,
// servers send it a second time, as JSON or as the one text in it.
func structured(raw json.RawMessage, parts []string) string {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil || value == nil {
		return ""
	}
	whole := strings.Join(parts, "\n\n")
	if fields, ok := value.(map[string]any); ok && len(fields) == 1 {
		for _, only := range fields {
			if text, ok := only.(string); ok && text == whole {
				return ""
			}
		}
	}
	for _, part := range parts {
		var same any
		if json.Unmarshal([]byte(part), &same) == nil && reflect.DeepEqual(value, same) {
			return ""
		}
	}
	return string(raw)
}

func (r *reader) piece(raw json.RawMessage) string {
	var c content
	if err := json.Unmarshal(raw, &c); err != nil {
		return "[a part of the result cannot be read]"
	}
	switch c.Type {
	case "text":
		return c.Text
	case "image", "audio":
		return r.file(c.Type, c.MIMEType, c.Data)
	case "resource_link":
		return fmt.Sprintf("[resource %s: %s%s]", c.URI, c.Name, prefixed(": ", c.Description))
	case "resource":
		return r.resource(c)
	}
	return fmt.Sprintf("[a part of the result is of the unknown type %q]", clip(c.Type, 40))
}

func (r *reader) resource(c content) string {
	switch {
	case c.Resource == nil:
		return "[a resource without content]"
	case c.Resource.Text != nil:
		return fmt.Sprintf("[resource %s]\n%s", c.Resource.URI, *c.Resource.Text)
	case c.Resource.Blob != nil:
		return fmt.Sprintf("[resource %s]\n%s", c.Resource.URI, r.file("file", c.Resource.MIMEType, *c.Resource.Blob))
	}
	return fmt.Sprintf("[resource %s, without content]", c.Resource.URI)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// file keeps what is not text as a file of the conversation and says where.
func (r *reader) file(kind, mimeType, data string) string {
	body, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return fmt.Sprintf("[%s that cannot be decoded]", kind)
	}
	what := fmt.Sprintf("%s, %s, %d bytes", kind, cmp.Or(mediaType(mimeType), "of an unknown type"), len(body))
	if r.artifacts == nil {
		return fmt.Sprintf("[%s; it was not kept]", what)
	}
	sum := sha256.Sum256(body)
	path, err := r.artifacts.Save(r.ctx, r.caller, "mcp-"+hex.EncodeToString(sum[:8])+extension(mimeType), string(body))
	if err != nil { // the call has taken place, and does not fail for that
		r.log.Warn().Err(err).Str("file", what).Msg("what an MCP server returned was not kept")
		if full := (*rootfs.Full)(nil); errors.As(err, &full) {
			return fmt.Sprintf("[%s; it could not be kept: %v]", what, full)
		}
		return fmt.Sprintf("[%s; it could not be kept]", what)
	}
	return fmt.Sprintf("[%s; it is in %s]", what, path)
}

// mediaType is a media type without parameters; empty if it is none.
func mediaType(s string) string {
	kind, _, err := mime.ParseMediaType(s)
	if err != nil {
		return ""
	}
	return kind
}

// extension is that of files of a type that we know; nobody executes the others by their name.
func extension(mimeType string) string {
	known := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "audio/wav": ".wav",
		"audio/mpeg": ".mp3", "audio/ogg": ".ogg",
		"application/pdf": ".pdf", "application/json": ".json", "application/gzip": ".gz", "application/zip": ".zip",
		"text/plain": ".txt",
	}
	return cmp.Or(known[mediaType(mimeType)], ".bin")
}
