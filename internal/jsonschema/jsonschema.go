// Package jsonschema stands in for github.com/santhosh-tekuri/jsonschema/v6, of which it has what mcp-go calls. The
// schemas are those of github.com/google/jsonschema-go, which Corebot uses anyway.
//
// The original compiles the metaschemas of five drafts when a program starts, also in a program that never validates.
// docs/decisions/0101-schemas-that-start-at-once.md has the figures.
package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/jsonschema-go/jsonschema"
)

// UnmarshalJSON decodes the one JSON value that r has.
func UnmarshalJSON(r io.Reader) (any, error) {
	d := json.NewDecoder(r)
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON value")
	}
	return value, nil
}

// Compiler makes a [Schema] of a document.
type Compiler struct {
	documents map[string]*jsonschema.Schema
}

// NewCompiler has no documents.
func NewCompiler() *Compiler { return &Compiler{map[string]*jsonschema.Schema{}} }

// AddResource gives a decoded document its address.
func (c *Compiler) AddResource(url string, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	c.documents[url] = &schema
	return nil
}

// Compile resolves the references of a document. They must stay inside of it: nothing is fetched.
func (c *Compiler) Compile(url string) (*Schema, error) {
	document, known := c.documents[url]
	if !known {
		return nil, fmt.Errorf("%s: there is no such document", url)
	}
	resolved, err := document.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &Schema{resolved}, nil
}

// Schema is a compiled document.
type Schema struct {
	resolved *jsonschema.Resolved
}

// Validate returns a [ValidationError] for a value that the schema does not allow.
func (s *Schema) Validate(value any) error {
	if err := s.resolved.Validate(value); err != nil {
		return &ValidationError{ErrorKind: err}
	}
	return nil
}

// ValidationError says what is wrong. Its words name the place, so it has no location or causes of its own.
type ValidationError struct {
	InstanceLocation []string
	ErrorKind        error
	Causes           []*ValidationError
}

func (e *ValidationError) Error() string { return e.ErrorKind.Error() }
