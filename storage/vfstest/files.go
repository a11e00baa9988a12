package vfstest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files are the contents of a directory's regular files by name.
type Files map[string][]byte

// ReadFiles reads the files directly in a directory, except SQLite's shared memory, which no power cut preserves.
func ReadFiles(dir string) (Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := Files{}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "-shm") {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// WriteTo creates a missing dir and writes the files into it. It replaces files with the same names.
func (f Files) WriteTo(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range f {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("lay out the files of a power cut: %w", err)
		}
	}
	return nil
}

func (f Files) names() []string { return slices.Sorted(maps.Keys(f)) }
