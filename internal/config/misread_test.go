package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
)

func TestABrokenFileIsToldByItsPlaceInPlainWords(t *testing.T) {
	many := strings.Repeat("# a comment\nlog:\n  level: info\n", 1)
	for i := range 60 {
		many += fmt.Sprintf("x%d:\n  a: [1,\n    2]\n", i)
	}
	const fits = "this line does not fit those above it"
	for text, want := range map[[2]string]string{
		{"json", `{"llm": {"model": "x",}}`}:            ", line 1, column 23: a comma before the closing }",
		{"json", "{\n \"llm\": {\n"}:                    ", line 3, column 1: the file ends in the middle",
		{"json", `[1]`}:                                 ": it has no settings at its top",
		{"json", ""}:                                    ", line 1, column 1: the file is empty",
		{"json", `{"llm":{"model":"a","model":"b"}}`}:   `, line 1, column 21: the name "model" stands there twice`,
		{"yaml", "llm:\n\tmodel: x\n"}:                  ", line 2, column 1: a tab before a name",
		{"yaml", "llm:\n  \tmodel: x\n"}:                ", line 2, column 3: a tab before a name",
		{"yaml", "llm:\n  model: x\n model: y\n"}:       ", line 3, column 2: " + fits,
		{"yaml", "llm: {model: x\n"}:                    ", line 1, column 1: a bracket that begins here",
		{"yaml", "llm: \"x\n"}:                          ", line 1, column 1: a quote that begins here",
		{"yaml", "llm: 'x\nfoo: 'y'\n"}:                 ", line 1, column 1: " + fits,
		{"yaml", "- a\n"}:                               ": it has no settings at its top",
		{"yaml", "llm:\n  model: a\n  model: b\n"}:      `, line 3, column 3: the name "model" stands there twice, and`,
		{"yaml", "llm: a: b\n"}:                         ", line 1, column 1: a colon too many",
		{"yaml", "llm:\n  model x\n  timeout: 3\n"}:     ", line 3, column 3: a colon too many",
		{"yaml", "llm: *x\n"}:                           ", line 1, column 6: a value that begins with * needs quotes",
		{"yaml", "llm:\n  model: @x\n"}:                 ", line 2, column 10: a value that begins with @ needs quotes",
		{"yaml", "llm:\n  model: \xff\n"}:               ", line 2, column 10: bytes that are not UTF-8",
		{"yaml", "a: 1\n---\nb: 2\n"}:                   ": it has several documents",
		{"yaml", many + "llm:\n  model: a: b\n" + many}: ", line 185, column 3: a colon too many",
		{"toml", "[llm]\nmodel=x\n"}:                    ", line 2, column 7: a value is missing, or a text has no",
		{"toml", "[llm\nmodel='x'\n"}:                   ", line 1, column 5: want ] here",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "corebot."+text[0])
		if err := os.WriteFile(path, []byte(text[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(dir)
		if err == nil || !strings.HasPrefix(err.Error(), "read "+path+want) ||
			!strings.Contains(corebot.HintOf(err), "correct the file") {
			t.Errorf("%.80q: %v, want %s", text[1], err, want)
		}
	}
}
