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

// TestThePagesNameOnlyTestsAndGuaranteesThatAreThere holds the pages that say what a test tries against the tests.
func TestThePagesNameOnlyTestsAndGuaranteesThatAreThere(t *testing.T) {
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	for _, file := range testFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`).FindAllString(string(text), -1) {
			if named++; !there[name] {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
	if named < 100 {
		t.Fatalf("only %d names were found: the walk is broken", named)
	}
	holdGuarantees(t, "docs/network-faults.md", "channels/channeltest/*.go")
	holdGuarantees(t, "docs/security.md", "storage/storagetest/*.go")
}

// holdGuarantees looks for each guarantee that a page quotes in a suite.
func holdGuarantees(t *testing.T, page, pattern string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var suite []byte
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		suite = append(suite, code...)
	}
	guarantees := regexp.MustCompile(`"[A-Z][^"]*\."`).FindAllString(string(text), -1)
	if len(guarantees) < 4 {
		t.Fatalf("%s quotes only %d guarantees: the walk is broken", page, len(guarantees))
	}
	for _, g := range guarantees {
		if !strings.Contains(string(suite), g+",") {
			t.Errorf("%s quotes %s, which %s does not have", page, g, pattern)
		}
	}
}
