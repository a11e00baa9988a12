// Package workspace names the files of a workspace that stand in prompts, and holds the texts that a new workspace
// starts with. They say who the assistant is, its manner and working rules, whom it serves, and how it uses its tools.
// An empty memory and the page of the first conversation come with them.
//
// Guarantee: installing never changes a file that is there. A file that was deleted comes back with the next install;
// to keep a page out of the prompt, empty it. [Bootstrap] and [Help] are the exceptions: only a workspace without any
// page gets them.
package workspace

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed templates
var templates embed.FS

// top is the directory that the templates are embedded from.
const top = "templates"

// Files is where the templates go: the workspace's directory. Create must leave an existing file alone and return
// fs.ErrExist. ReadFile gives fs.ErrNotExist for a file that is not there.
type Files interface {
	Create(path string, data []byte) error
	ReadFile(path string, limit int64) ([]byte, error)
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

// Install writes every template that the workspace has no file for. It may be run again at any time. A template that
// cannot be written keeps no other from its place; the error names all of them.
//
// [Help] and [Bootstrap] are written first: an install that was cut off and is run again finds them there, or a
// workspace still new.
func Install(files Files) error {
	names, err := Names()
	if err != nil {
		return err
	}
	first := []string{Help, Bootstrap}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(first, name) })
	if isNew(files) {
		names = slices.Insert(names, 0, first...)
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

// isNew says whether a workspace has no page at all. A page that cannot be read is there.
func isNew(files Files) bool {
	return !slices.ContainsFunc(Pages(), func(page string) bool {
		_, err := files.ReadFile(page, 1)
		return !errors.Is(err, fs.ErrNotExist)
	})
}
