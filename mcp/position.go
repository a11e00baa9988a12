package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// maxFileDepth is how deep a configuration file may be nested: one that is right has four levels.
const maxFileDepth = 16

// node is a JSON value that knows where in its file it stands.
type node struct {
	at     int64       // offset of its first byte
	kind   byte        // '{', '[', 's' for a text, 'n' for a number, 'b' for true and false, '0' for null
	text   string      // of a text, and of a number as it is spelt
	truth  bool        // of true and false
	fields []fieldNode // of an object, in their order
	items  []*node     // of a list
}

type fieldNode struct {
	at    int64
	name  string
	value *node
}

// parser reads a JSON document into nodes. Names that stand twice, comments, whatever follows the document, and bytes that are not UTF-8 are
// refused, each with its line.
type parser struct {
	file string
	data []byte
	dec  *json.Decoder
}

// parse reads a whole document.
func parse(file string, data []byte) (*node, error) {
	p := &parser{file: file, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	if i := invalidUTF8(data); i >= 0 {
		return nil, p.wrong(int64(i), "", errors.New("bytes that are not UTF-8"))
	}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	at := p.ahead()
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.wrong(at, "", errors.New("something follows the document"))
	}
	return n, nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// ahead is where the next token begins.
func (p *parser) ahead() int64 {
	at := p.dec.InputOffset()
	for at < int64(len(p.data)) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[at]) >= 0 {
		at++
	}
	return at
}

func (p *parser) token() (json.Token, int64, error) {
	at := p.ahead()
	tok, err := p.dec.Token()
	if err != nil {
		return nil, at, p.syntax(at, err)
	}
	return tok, at, nil
}

// syntax names the line of what is no JSON.
func (p *parser) syntax(at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return p.wrong(int64(len(p.data)), "", errors.New("the file ends in the middle"))
	}
	if at < int64(len(p.data)) && (p.data[at] == '/' || p.data[at] == '#') {
		return p.wrong(at, "", errors.New("a comment, which JSON does not have"))
	}
	if bytes.HasPrefix(p.data, []byte("\xef\xbb\xbf")) {
		return p.wrong(0, "", errors.New("a byte order mark, which JSON does not have"))
	}
	return p.wrong(at, "", fmt.Errorf("no JSON: %w", err))
}

func (p *parser) value(depth int) (*node, error) {
	tok, at, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &node{at: at}
	switch v := tok.(type) {
	case string:
		n.kind, n.text = 's', v
	case json.Number:
		n.kind, n.text = 'n', v.String()
	case bool:
		n.kind, n.truth = 'b', v
	case nil:
		n.kind = '0'
	case json.Delim:
		n.kind = byte(v)
		if depth >= maxFileDepth {
			return nil, p.wrong(at, "", fmt.Errorf("nested deeper than %d", maxFileDepth))
		}
		return n, p.inside(n, depth)
	}
	return n, nil
}

// inside reads what is in an object or a list.
func (p *parser) inside(n *node, depth int) error {
	seen := map[string]bool{}
	for p.dec.More() {
		f := fieldNode{at: p.ahead()}
		if n.kind == '{' {
			tok, _, err := p.token()
			if err != nil {
				return err
			}
			f.name, _ = tok.(string)
			if seen[f.name] {
				return p.wrong(f.at, f.name, errors.New("the key stands there twice"))
			}
			seen[f.name] = true
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		if f.value = v; n.kind == '{' {
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, v)
		}
	}
	_, _, err := p.token()
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

func (p *parser) wrong(at int64, key string, err error) error {
	at = min(at, int64(len(p.data)))
	return &FileError{File: p.file, Line: 1 + bytes.Count(p.data[:at], []byte("\n")), Key: clip(key, longestKey), Err: err}
}
