package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

// shortStories are the stories of the short form: what anybody lives through in the first week, and each group of
// commands once. All others are wide.
var shortStories = []string{"firsttalk", "groups", "init", "newcomer", "owner", "retry", "walk"}

// storyFiles are the stories of a directory that are played.
func storyFiles(t *testing.T, dir ...string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(filepath.Join(dir...), "*.txtar"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the stories of %v: %v", dir, err)
	}
	return slices.DeleteFunc(all, func(file string) bool { return long.Or(isWide(file) && !long.RaceDetector, false) })
}

func isWide(file string) bool {
	return !slices.Contains(shortStories, strings.TrimSuffix(filepath.Base(file), ".txtar"))
}

// mostShortStarts is how often the stories of the short form start the program. A start takes 20 to 100 ms of a
// processor. "look" spares it.
const mostShortStarts = 80

func TestTheStoriesOfTheShortFormStartFewPrograms(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	deeper, err2 := filepath.Glob("testdata/script/*/*.txtar")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	starts, short := 0, 0
	// Commands that cannot be understood run in the process of the tests.
	start := regexp.MustCompile(`(?m)^(!\s*)?(exec corebot|exec sh -c '.*corebot|exits [01] corebot|refused)\b`)
	for _, file := range append(files, deeper...) {
		if isWide(file) {
			continue
		}
		short++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		starts += len(start.FindAll(text, -1))
	}
	if starts > mostShortStarts {
		t.Errorf("the stories of the short form start the program %d times, want at most %d", starts, mostShortStarts)
	}
	if short != len(shortStories) {
		t.Errorf("%d stories are short, and %d are said to be", short, len(shortStories))
	}
}
