package markdown

import (
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

func TestAddressesEndWhereTheSentenceGoesOn(t *testing.T) {
	for in, want := range map[string]string{
		"https://e.org":                "https://e.org",
		"http://e.org/a, and":          "http://e.org/a",
		"https://e.org/a_(b)).":        "https://e.org/a_(b)",
		"https://e.org/**":             "https://e.org/",
		"https://e.org/?a=1&b=[2]~#c'": "https://e.org/?a=1&b=[2]~#c",
		"https://e.org|x":              "https://e.org",
		"https://例え":                   "",
		"https://":                     "",
		"https://...":                  "",
		"ftp://e.org":                  "",
	} {
		if got := in[:addressLength([]byte(in))]; got != want {
			t.Errorf("the address of %q is %q, not %q", in, got, want)
		}
	}
}

func TestASmallTextNeverBecomesALargeTable(t *testing.T) {
	const columns, rows = 60, 1000
	in := []byte(strings.Repeat("a|", columns) + "\n" + strings.Repeat("-|", columns) + "\n" +
		strings.Repeat("1\n", rows))
	nodes := 0
	err := ast.Walk(New().Parse(in), func(ast.Node, bool) (ast.WalkStatus, error) {
		nodes++
		return ast.WalkContinue, nil
	})
	if most := 10 * (columns + rows); err != nil || nodes > most {
		t.Errorf("%d nodes (%v), at most %d were expected", nodes, err, most)
	}
}
