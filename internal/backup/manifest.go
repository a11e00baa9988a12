package backup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// Manifest says what a backup has. Its file also lists the files, which [readManifest] gives one by one: there can be
// very many.
type Manifest struct {
	Format  int       `json:"format"`
	Corebot string    `json:"corebot"` // the version that made it
	MadeAt  time.Time `json:"createdAt"`
	corebot.Inventory
	Trees   []string  `json:"trees"`   // the directories that were copied, empty ones too
	Secrets []Secret  `json:"secrets"` // where the settings of the backup look for their secrets
	LeftOut []LeftOut `json:"leftOut"`
	Total   Total     `json:"total"`
}

// LeftOut is a file of settings that a backup lacks.
type LeftOut struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Total is the size of a backup without its manifest.
type Total struct {
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
	Skipped int64 `json:"skipped"` // sockets, devices, and files that went while they were copied
}

// Secret is a setting that names where its secret is.
type Secret struct {
	File      string `json:"file"` // of the settings
	Setting   string `json:"setting"`
	Reference string `json:"reference"`         // such as file:webhook.token
	LeftOut   bool   `json:"leftOut,omitempty"` // the settings of the home have the secret itself
}

// File is one file of a backup.
type File struct {
	Path     string    `json:"path,omitempty"`
	Bytes    []byte    `json:"pathBytes,omitempty"` // instead of the path, if the path is not UTF-8
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256,omitempty"`
	Program  bool      `json:"program,omitempty"` // its owner can run it
	Modified time.Time `json:"modifiedAt"`
	Link     []byte    `json:"link,omitempty"` // of a symbolic link: where it leads; it has no content
}

// ManifestName is the name of the manifest in its backup.
const ManifestName = "manifest.json"

// format is the newest format that this version reads. A change that this version could not read gets the next number.
const format = 1

// Names in a backup, as in a home.
const (
	DatabasePath = "data/corebot.db"
	FilesPath    = "data/files"
	agentsDir    = "agents"
)

// part says what a path in a backup belongs to.
type part int

const (
	partNone part = iota
	partDatabase
	partTree
	partSettings
)

var (
	treePath     = lazy.Regexp(`^(?:data/files|workspace|agents/[a-z0-9][a-z0-9-]{0,31}/workspace)$`)
	settingsPath = lazy.Regexp(`^(?:corebot\.(?:ya?ml|toml|json)|(?:agents/[a-z0-9][a-z0-9-]{0,31}/)?\.mcp\.json)$`)
)

// partOf gives the part that a path belongs to, and the directory of a tree.
func partOf(name string) (p part, tree string) {
	if name == DatabasePath {
		return partDatabase, ""
	}
	if settingsPath().MatchString(name) {
		return partSettings, ""
	}
	for tree = path.Dir(name); tree != "."; tree = path.Dir(tree) {
		if treePath().MatchString(tree) {
			return partTree, tree
		}
	}
	return partNone, ""
}

// name is the path of a file, whatever its bytes are.
func (f File) name() string {
	if f.Path == "" {
		return string(f.Bytes)
	}
	return f.Path
}

// check refuses a file that no backup has.
func (f File) check() error {
	name := f.name()
	p, _ := partOf(name)
	sum, err := hex.DecodeString(f.SHA256)
	switch {
	case path.Clean(name) != name || !filepath.IsLocal(name) || strings.ContainsRune(name, 0) || p == partNone:
		return fmt.Errorf("%q is no file of a backup", name)
	case f.Size < 0:
		return fmt.Errorf("%q has a size that no file has", name)
	case f.Link != nil && (p != partTree || bytes.IndexByte(f.Link, 0) >= 0 || len(f.Link) == 0 || f.SHA256 != ""):
		return fmt.Errorf("%q is no link that a backup has", name)
	case f.Link == nil && (err != nil || len(sum) != hashSize):
		return fmt.Errorf("%q has no hash", name)
	}
	return nil
}

// headerOf is the manifest without its files, as its file begins.
func (m Manifest) headerOf() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(bytes.TrimSuffix(text, []byte("\n}")), ",\n  \"files\": ["...), nil
}

// readManifest reads a manifest and hands each of its files to each, in order. A nil each reads the beginning only.
func readManifest(r io.Reader, each func(File) error) (m Manifest, err error) {
	dec := json.NewDecoder(r)
	if err := expect(dec, json.Delim('{')); err != nil {
		return m, err
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return m, err
		}
		key, _ := name.(string)
		if key == "files" {
			if err := m.take(fields); err != nil || each == nil {
				return m, err
			}
			return m, readFiles(dec, each)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return m, err
		}
		if _, twice := fields[key]; twice {
			return m, fmt.Errorf("%q is there twice", key)
		}
		fields[key] = value
	}
	return m, errors.New("it lists no files")
}

// take sets the fields of the manifest, and refuses a format that this version does not know.
func (m *Manifest) take(fields map[string]json.RawMessage) error {
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	switch {
	case err != nil:
		return err
	case m.Format > format:
		return corebot.WithHint(fmt.Errorf("it has format %d, this Corebot knows up to %d", m.Format, format),
			"use the Corebot that made it, "+m.Corebot+", or a newer one")
	case m.Format < 1 || m.MadeAt.IsZero():
		return errors.New("it does not say what it is")
	}
	for _, tree := range m.Trees {
		if !treePath().MatchString(tree) {
			return fmt.Errorf("%q is no directory of a backup", tree)
		}
	}
	return nil
}

// readFiles reads the list of files to the end of the manifest.
func readFiles(dec *json.Decoder, each func(File) error) error {
	if err := expect(dec, json.Delim('[')); err != nil {
		return err
	}
	database := false
	for dec.More() {
		var f File
		if err := dec.Decode(&f); err != nil {
			return err
		}
		if err := f.check(); err != nil {
			return err
		}
		database = database || f.name() == DatabasePath
		if err := each(f); err != nil {
			return err
		}
	}
	for _, end := range []json.Delim{']', '}'} {
		if err := expect(dec, end); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	if !database {
		return errors.New("it lists no database")
	}
	return nil
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%v stands where %v should", got, want)
	}
	return nil
}
