package mcp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/internal/strictjson"
)

const (
	// FileName is the configuration's name in a home.
	FileName   = ".mcp.json"
	maxFile    = 1 << 20 // bytes
	maxServers = 64
)

// File is what a configuration file says.
type File struct {
	Servers []Spec // by name
}

// Secrets are the values in the file that are taken for secrets: of headers, and of variables with a name that says so.
func (f File) Secrets() []string {
	var all []string
	for _, s := range f.Servers {
		all = append(all, s.secrets()...)
	}
	return all
}

// ReadFile reads a configuration file. A missing file configures no server. A mistake is a [*FileError], which names
// the file, the key and the line; env looks up variables. Relative directories begin at the file's own. ReadFile
// refuses a file that others can change or exchange: the file says which programs run.
func ReadFile(path string, env func(string) (string, bool)) (File, error) {
	err := owned.Check(filepath.Dir(path))
	var f *os.File
	if err == nil {
		f, _, err = owned.Open(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("read the MCP servers: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return File{}, fmt.Errorf("read the MCP servers: %w", err)
	}
	if len(data) > maxFile {
		return File{}, fmt.Errorf("%w: %s has more than %d bytes", corebot.ErrInvalid, path, maxFile)
	}
	return parseFile(path, data, env)
}

// entryReader reads the entries of one file.
type entryReader struct {
	*parser
	env func(string) (string, bool)
	dir string
}

func parseFile(path string, data []byte, env func(string) (string, bool)) (File, error) {
	root, err := parse(path, data)
	if err != nil {
		return File{}, err
	}
	r := &entryReader{parser: &parser{file: path, data: data}, env: env, dir: filepath.Dir(path)}
	if root.kind != '{' {
		return File{}, r.wrong(root.at, "", errors.New(`want an object with the key "mcpServers"`))
	}
	var servers *node
	for _, f := range root.fields {
		if f.name != "mcpServers" {
			return File{}, r.unknown(f.at, f.name, []string{"mcpServers"})
		}
		servers = f.value
	}
	switch {
	case servers == nil:
		return File{}, r.wrong(root.at, "", errors.New(`the key "mcpServers" is missing`))
	case servers.kind != '{':
		return File{}, r.wrong(servers.at, "mcpServers", errors.New("want an object with the servers by name"))
	case len(servers.fields) > maxServers:
		return File{}, r.wrong(servers.at, "mcpServers", fmt.Errorf("more than %d servers", maxServers))
	}
	return r.servers(servers)
}

// servers reads the entries. Names become part of the names of tools, so they are kept plain. Two underscores in a row
// would make "a__b" with the tool "c" the same as "a" with the tool "b__c".
func (r *entryReader) servers(n *node) (f File, err error) {
	name := regexp.MustCompile(`^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$`)
	known := map[string]string{}
	for _, field := range n.fields {
		key := "mcpServers." + field.name
		if !name.MatchString(field.name) || len(field.name) > maxServerName {
			return File{}, corebot.WithHint(r.wrong(field.at, key, fmt.Errorf("%q is no name of a server",
				clip(field.name, 60))),
				fmt.Sprintf("use letters and digits, with single - or _ between them, %d characters at most",
					maxServerName))
		}
		if other, ok := known[alike(field.name)]; ok {
			return File{}, corebot.WithHint(r.wrong(field.at, key, fmt.Errorf("there is a server %q, whose name "+
				"looks like this one", other)), "give one of them another name")
		}
		known[alike(field.name)] = field.name
		s, err := r.entry(key, field)
		if err != nil {
			return File{}, err
		}
		f.Servers = append(f.Servers, s)
	}
	sorted.By(f.Servers, func(a, b Spec) int { return cmp.Compare(a.Name, b.Name) })
	return f, nil
}

func (r *entryReader) unknown(at int, key string, known []string) error {
	return corebot.WithHint(r.wrong(at, key, errors.New("this key is not known")),
		"known are "+strings.Join(known, ", "))
}

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

// parser reads a JSON document into nodes. Names that stand twice, comments, whatever follows the document, and bytes
// that are not UTF-8 are refused, each with its line.
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
	if bad.What == strictjson.Doubled {
		return p.wrong(bad.At, bad.Name, errors.New("the key stands there twice"))
	}
	line, column := strictjson.Place(p.data, bad.At)
	return &FileError{File: p.file, Line: line, Column: column, Err: errors.New(bad.Words(p.data))}
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
	Line int // from 1
	// Column is the character in the line at which the file is no JSON, from 1. It is 0 if the mistake is another.
	Column int
	Key    string // such as mcpServers.files.args; empty if the mistake is in no key
	Err    error
}

func (e *FileError) Error() string {
	switch {
	case e.Column > 0:
		return fmt.Sprintf("%s, line %d, column %d: %v", e.File, e.Line, e.Column, e.Err)
	case e.Key == "":
		return fmt.Sprintf("%s, line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%s, line %d, key %s: %v", e.File, e.Line, e.Key, e.Err)
}

func (e *FileError) Unwrap() []error { return []error{e.Err, corebot.ErrInvalid} }

// longestKey is how much of a key an error shows.
const longestKey = 200

func (p *parser) wrong(at int, key string, err error) error {
	return &FileError{
		File: p.file, Line: 1 + bytes.Count(p.data[:at], []byte("\n")), Key: clip(key, longestKey),
		Err: err,
	}
}
