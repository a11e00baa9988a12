package main

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mayImportStorage are the files whose commands work on the database file itself, and the one that names its schema.
var mayImportStorage = map[string]bool{"db.go": true, "release.go": true}

func TestNoCommandReadsTheDatabaseByItself(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || mayImportStorage[file] {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"github.com/corebot/corebot/storage"` {
				t.Errorf("%s imports storage: what it reads or changes is an operation of internal/operate", file)
			}
		}
	}
}
