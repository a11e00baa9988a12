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

// wideStories are left out of the short form. Most of them start the program ten times or more. Tests of the packages
// tell most of what they tell. The short form has what a newcomer or an operator lives through in any week.
var wideStories = []string{
	// the whole of one command, with all that it refuses
	"bench", "dlq", "endpoints", "forget", "initflags", "initnetwork", "pair", "sendwait", "sessions", "settings",
	"skillsinstall", "tokens", "vacuum",
	// walls, each tried at every door
	"agentwalls", "auditheads", "isolated", "mcpdescriptions", "mcprugpull", "mcpsecrets", "mcpwayout", "owners",
	"roles", "roots", "sandbox", "shell",
	// features with stories beside these
	"agenttalk", "backup", "budget", "channels", "grants", "jobs", "lost", "mcpapprovals", "mcpslow", "model",
	"named", "programs", "project", "rollback", "rules", "waits",
}

// storyFiles are the stories of a directory that are played.
func storyFiles(t *testing.T, dir ...string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(filepath.Join(dir...), "*.txtar"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the stories of %v: %v", dir, err)
	}
	return slices.DeleteFunc(all, func(file string) bool { return long.Or(isWide(file), false) })
}

func isWide(file string) bool {
	return slices.Contains(wideStories, strings.TrimSuffix(filepath.Base(file), ".txtar"))
}

// mostShortStarts is how often the stories of the short form start the program. A start takes 20 to 100 ms of a
// processor. A story that does not fit is one of wideStories, or has "look" where it has "exec corebot".
const mostShortStarts = 420

func TestTheStoriesOfTheShortFormStartFewPrograms(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	deeper, err2 := filepath.Glob("testdata/script/*/*.txtar")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	starts, wide := 0, 0
	// Commands that cannot be understood run in the process of the tests.
	start := regexp.MustCompile(`(?m)^(!\s*)?(exec corebot|exec sh -c '.*corebot|exits [01] corebot|refused)\b`)
	for _, file := range append(files, deeper...) {
		if isWide(file) {
			wide++
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		starts += len(start.FindAll(text, -1))
	}
	if starts > mostShortStarts {
		t.Errorf("the stories of the short form start the program %d times, want at most %d", starts, mostShortStarts)
	}
	if wide != len(wideStories) {
		t.Errorf("%d stories are wide, and %d are said to be", wide, len(wideStories))
	}
}
