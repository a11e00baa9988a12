package corebot_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tables are the tables of the newest schema: the migrations, played in order by their CREATE, DROP and RENAME.
func tables(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	change := regexp.MustCompile(
		`(?m)^(?:CREATE (?:VIRTUAL )?TABLE (\w+)|DROP TABLE (\w+)|ALTER TABLE (\w+) RENAME TO (\w+))`)
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, m := range change.FindAllStringSubmatch(up, -1) {
			delete(found, m[2])
			delete(found, m[3])
			found[m[1]+m[4]] = true
			delete(found, "")
		}
	}
	return found
}

func TestTheArchitecturePageNamesEveryTableAndPackageAndOnlyFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	all := tables(t)
	if len(all) < 20 {
		t.Fatalf("only %d tables were found: the walk is broken", len(all))
	}
	for name := range all {
		if !strings.Contains(page, "\n| `"+name+"` |") {
			t.Errorf("the table %s is not on the page", name)
		}
	}
	for pkg := range imports(t) {
		if pkg != "" && !suites[pkg] && !strings.Contains(page, "`"+pkg+"`") {
			t.Errorf("the package %s is not on the page", pkg)
		}
	}
	_, rows, _ := strings.Cut(page, "\n## The tables\n")
	rows, _, _ = strings.Cut(rows, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(rows, -1) {
		if !all[m[1]] {
			t.Errorf("the page has a table %s, the schema has none", m[1])
		}
	}
	paths := regexp.MustCompile("`((?:[a-z_]+/)+[a-z_]*(?:\\.go|\\.md)?|[a-z]+\\.go)`").FindAllStringSubmatch(page, -1)
	if len(paths) < 40 {
		t.Fatalf("only %d paths were found: the walk is broken", len(paths))
	}
	for _, m := range paths {
		if _, err := os.Stat(m[1]); err != nil && m[1] != "metrics.go" {
			t.Error(err)
		}
	}
}
