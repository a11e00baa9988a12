// Package workspace holds the files that a new workspace starts with: who the assistant is, whom it serves, how it uses its
// tools, and an empty memory.
//
// Guarantee: installing never changes a file that is there. A file that was deleted comes back with the next install; to keep
// one out of the prompt, empty it.
package workspace

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed templates
var templates embed.FS

// top is the directory that the templates are embedded from.
const top = "templates"

// Files is where the templates go: the workspace's directory. Create must leave an existing file alone and return fs.ErrExist.
type Files interface {
	Create(path string, data []byte) error
}

// Names returns the paths of the templates in the workspace, sorted.
func Names() ([]string, error) {
	var names []string
	err := fs.WalkDir(templates, top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, top+"/"))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the workspace templates: %w", err)
	}
	return names, nil
}

// Install writes every template that the workspace has no file for. It may be run again at any time. A template that cannot be written keeps no other
// from its place; the error names all of them.
func Install(files Files) error {
	names, err := Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		data, err := templates.ReadFile(top + "/" + name)
		if err == nil {
			err = files.Create(name, data)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, fmt.Errorf("install %s in the workspace: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
