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

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
)

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

// reader makes text of results. What is not text becomes a file of the conversation.
type reader struct {
	artifacts tools.Artifacts // nil: what is not text is lost
	key       corebot.Key
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

// structured is the structured part of a result, unless its texts say the same: servers send it twice, for older clients, as JSON or as the one
// text that is in it.
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
	path, err := r.artifacts.Save(r.ctx, r.key, "mcp-"+hex.EncodeToString(sum[:8])+extension(mimeType), string(body))
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
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg",
		"application/pdf": ".pdf", "application/json": ".json", "application/gzip": ".gz", "application/zip": ".zip", "text/plain": ".txt",
	}
	return cmp.Or(known[mediaType(mimeType)], ".bin")
}
