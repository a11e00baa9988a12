package mcp

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/strictjson"
)

// maxFileDepth is how deep a configuration file may be nested: one that is right has four levels.
const maxFileDepth = 16

// node is a JSON value that knows where in its file it stands.
type node struct {
	at     int         // offset of its first byte
	kind   byte        // '{', '[', '"' for a text, '0' for a number, 't', 'f' and 'n' for true, false and null
	text   string      // of a text, and of a number as it is spelt
	fields []fieldNode // of an object, in their order
	items  []*node     // of a list
}

type fieldNode struct {
	at    int
	name  string
	value *node
}

// parser reads a JSON document into nodes. Names that stand twice, comments, whatever follows the document, and bytes that are not UTF-8 are
// refused, each with its line.
type parser struct {
	file string
	data []byte
	json *strictjson.Reader
}

// parse reads a whole document.
func parse(file string, data []byte) (*node, error) {
	p := &parser{file: file, data: data, json: strictjson.NewReader(data, strictjson.Rules{HalfCharacters: true})}
	n, err := p.value()
	if err == nil {
		err = p.json.End()
	}
	if err != nil {
		return nil, p.explain(err)
	}
	return n, nil
}

// explain gives what strictjson says the words of somebody who edits a file.
func (p *parser) explain(err error) error {
	var bad *strictjson.Error
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.What {
	case strictjson.Encoding:
		err = errors.New("bytes that are not UTF-8")
	case strictjson.Trailing:
		err = errors.New("something follows the document")
	case strictjson.Cut:
		err = errors.New("the file ends in the middle")
	case strictjson.Doubled:
		return p.wrong(bad.At, bad.Name, errors.New("the key stands there twice"))
	case strictjson.Deep:
		err = fmt.Errorf("nested deeper than %d", maxFileDepth)
	default:
		return p.syntax(bad)
	}
	return p.wrong(bad.At, "", err)
}

// syntax names what people write into JSON that it does not have.
func (p *parser) syntax(bad *strictjson.Error) error {
	rest := p.data[bad.At:]
	switch {
	case bytes.HasPrefix(rest, []byte("/")), bytes.HasPrefix(rest, []byte("#")):
		return p.wrong(bad.At, "", errors.New("a comment, which JSON does not have"))
	case bytes.HasPrefix(p.data, []byte("\xef\xbb\xbf")):
		return p.wrong(0, "", errors.New("a byte order mark, which JSON does not have"))
	}
	return p.wrong(bad.At, "", fmt.Errorf("no JSON: %w", bad))
}

func (p *parser) value() (*node, error) {
	n := &node{at: p.json.Ahead()}
	tok, err := p.json.Next()
	if err != nil {
		return nil, err
	}
	switch n.kind = byte(tok.Kind()); n.kind {
	case '"', '0':
		n.text = tok.String()
	case '{', '[':
		if p.json.Depth() > maxFileDepth {
			return nil, p.wrong(n.at, "", fmt.Errorf("nested deeper than %d", maxFileDepth))
		}
		return n, p.inside(n)
	}
	return n, nil
}

// inside reads what is in an object or a list, and its end.
func (p *parser) inside(n *node) error {
	for p.json.More() {
		f := fieldNode{at: p.json.Ahead()}
		if n.kind == '{' {
			name, err := p.json.Next()
			if err != nil {
				return err
			}
			f.name = name.String()
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		if f.value = v; n.kind == '{' {
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := p.json.Next()
	return err
}

// FileError is a mistake in a configuration file.
type FileError struct {
	File string
	Line int    // from 1
	Key  string // such as mcpServers.files.args; empty if the mistake is in no key
	Err  error
}

func (e *FileError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s, line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s, line %d, key %s: %v", e.File, e.Line, e.Key, e.Err)
}

func (e *FileError) Unwrap() []error { return []error{e.Err, corebot.ErrInvalid} }

// longestKey is how much of a key an error shows.
const longestKey = 200

func (p *parser) wrong(at int, key string, err error) error {
	return &FileError{File: p.file, Line: 1 + bytes.Count(p.data[:at], []byte("\n")), Key: clip(key, longestKey), Err: err}
}
