package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are what people read, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	templates, err := filepath.Glob(filepath.Join(root, "workspace", "templates", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range slices.Concat(paths, templates, []string{
		filepath.Join(root, "README.md"),
		filepath.Join(root, "CONTRIBUTING.md"),
	}) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

func TestEveryCommandThatAPageNamesIsThere(t *testing.T) {
	named := regexp.MustCompile("(?m)(?:^|`)corebot((?: [a-z][a-z|-]*)+)")
	root := newRoot()
	for path, text := range pages(t) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(found[1])
			for _, first := range strings.Split(words[0], "|") {
				cmd, _, err := root.Find([]string{first})
				if err != nil || cmd == root {
					t.Errorf("%s: there is no command corebot %s", path, first)
					continue
				}
				if len(words) == 1 || !cmd.HasSubCommands() {
					continue
				}
				for _, second := range strings.Split(words[1], "|") {
					if sub, _, err := cmd.Find([]string{second}); err != nil || sub == cmd {
						t.Errorf("%s: there is no command corebot %s %s", path, first, second)
					}
				}
			}
		}
	}
}

func TestTheReadmeNamesTheGoVersionOfTheModule(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	readme := pages(t)[filepath.Join("..", "..", "README.md")]
	if version == nil || !strings.Contains(readme, "Go "+string(version[1])+" or later") {
		t.Errorf("go.mod wants Go %s, and the README does not say so", version)
	}
	license, err := os.ReadFile(filepath.Join("..", "..", "LICENSE"))
	if err != nil || !strings.Contains(string(license), "Copyright (c) 2026 The Corebot authors") {
		t.Errorf("the license: %v", err)
	}
}

// TestTheWayBackOfThePageIsTheOneThatIsTried holds the commands of the page to those of the story rollback.txtar.
func TestTheWayBackOfThePageIsTheOneThatIsTried(t *testing.T) {
	story, err := os.ReadFile(filepath.Join("testdata", "script", "rollback.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(pages(t)[filepath.Join("..", "..", "docs", "operations.md")],
		"\n### Back to the version before\n")
	blocks := strings.Split(section, "```")
	if !found || len(blocks) < 3 {
		t.Fatal("docs/operations.md has no commands for the way back")
	}
	at := 0
	for command := range strings.Lines(strings.TrimSpace(blocks[1])) {
		want := "exec sh -c '" + strings.TrimSuffix(strings.TrimSpace(command), "…")
		next := strings.Index(string(story)[at:], want)
		if next < 0 {
			t.Fatalf("the story does not try %q in its place", want)
		}
		at += next + len(want)
	}
}
