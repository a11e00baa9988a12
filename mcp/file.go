package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
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

// ReadFile reads a configuration file. One that is not there configures no server. Whatever is wrong in it is a [*FileError], which names the
// file, the key and the line; env looks up variables. Relative directories begin at the file's own. A file that others can change, or exchange, is
// refused: it says which programs run.
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

// servers reads the entries. Names become part of the names of tools, so that they are kept plain; two underscores in a row would make
// "a__b" with the tool "c" the same as "a" with the tool "b__c".
func (r *entryReader) servers(n *node) (f File, err error) {
	name := regexp.MustCompile(`^[A-Za-z0-9]+([_-][A-Za-z0-9]+)*$`)
	known := map[string]string{}
	for _, field := range n.fields {
		key := "mcpServers." + field.name
		if !name.MatchString(field.name) || len(field.name) > maxServerName {
			return File{}, corebot.WithHint(r.wrong(field.at, key, fmt.Errorf("%q is no name of a server", clip(field.name, 60))),
				fmt.Sprintf("use letters and digits, with single - or _ between them, %d characters at most", maxServerName))
		}
		if other, ok := known[alike(field.name)]; ok {
			return File{}, corebot.WithHint(r.wrong(field.at, key, fmt.Errorf("there is a server %q, whose name looks like this one", other)), "give one of them another name")
		}
		known[alike(field.name)] = field.name
		s, err := r.entry(key, field)
		if err != nil {
			return File{}, err
		}
		f.Servers = append(f.Servers, s)
	}
	slices.SortFunc(f.Servers, func(a, b Spec) int { return cmp.Compare(a.Name, b.Name) })
	return f, nil
}

func (r *entryReader) unknown(at int, key string, known []string) error {
	return corebot.WithHint(r.wrong(at, key, errors.New("this key is not known")), "known are "+strings.Join(known, ", "))
}
