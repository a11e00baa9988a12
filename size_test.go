package corebot_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxColumns = 120
	maxLines   = 500
	maxFiles   = 20
)

// crowded are the packages with more than maxFiles files, tests not counted, and how many each can have. Storage has
// one aggregate a file, the package of tools one tool or one family of tools; see decision 136.
var crowded = map[string]int{
	"storage": 64, "internal/app": 30, "cmd/corebot": 45, "tools/builtin": 36, "internal/config": 22,
	"tools/isolation": 22, "bus/bustest": 21,
}

func TestGoLinesHaveAtMost120Columns(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != ".":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		read++
		number := 0
		for line := range bytes.Lines(text) {
			number++
			line = bytes.TrimRight(line, "\n")
			if n := utf8.RuneCount(bytes.ReplaceAll(line, []byte("\t"), []byte("    "))); n > maxColumns {
				t.Errorf("%s:%d has %d columns, the limit is %d with tabs of 4", file, number, n, maxColumns)
			}
		}
		return nil
	})
	if err != nil || read < 800 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}

// Code and tables in a page keep their lines, and a word that is longer than a line has one to itself.
func TestPagesHaveAtMost120Columns(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	if len(pages) < 100 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		number, code := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			words := strings.Fields(line)
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code || len(words) < 3 || words[0] == "|" || strings.HasPrefix(line, "    ") { // a mark and one word
				continue
			}
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > maxColumns {
				t.Errorf("%s:%d has %d columns, the limit is %d", page, number, n, maxColumns)
			}
		}
	}
}

func TestFilesOfProgramsHaveAtMost500Lines(t *testing.T) {
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, the limit is %d: split it along a noun", file, n, maxLines)
		}
	}
}

func TestPackagesHaveAtMost20FilesAndCrowdedOnesAsManyAsTheirLimit(t *testing.T) {
	count := map[string]int{}
	for _, file := range goFiles(t) {
		count[filepath.ToSlash(filepath.Dir(file))]++
	}
	for pkg, n := range count {
		limit, listed := crowded[pkg]
		switch {
		case !listed && n > maxFiles:
			t.Errorf("%s has %d files, the limit is %d: join what is read together", pkg, n, maxFiles)
		case listed && n > limit:
			t.Errorf("%s has %d files, the limit is %d: join what is read together", pkg, n, limit)
		}
	}
}
