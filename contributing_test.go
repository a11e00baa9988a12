package corebot_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheContributingPageQuotesTheCode compares each block of code on the page with its file. The text before the block
// names the file first; without a name it is the file of the block before.
func TestTheContributingPageQuotesTheCode(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## A new tool\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("the page has no section about a new tool")
	}
	files, blocks := regexp.MustCompile("`([a-z_]+/[a-z_/]+\\.(?:go|md))`"), strings.Split(section, "```")
	file, quoted := "", 0
	for i, block := range blocks {
		if i%2 == 0 {
			if named := files.FindStringSubmatch(block); named != nil {
				file = named[1]
			}
			continue
		}
		_, quote, _ := strings.Cut(block, "\n")
		text, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(quote) == "" || !strings.Contains(string(text), quote) {
			t.Errorf("%q does not have (%v):\n%s", file, err, quote)
		}
		quoted++
	}
	if quoted != 6 {
		t.Errorf("%d blocks of code were found: the walk is broken", quoted)
	}
}
