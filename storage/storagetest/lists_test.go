package storagetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// promised is what the doc comment of each interface lists.
func promised(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			name := g.Specs[0].(*ast.TypeSpec).Name.Name
			for line := range strings.Lines(g.Doc.Text()) {
				if item, found := strings.CutPrefix(strings.TrimSpace(line), "- "); found {
					lists[name] = append(lists[name], item)
				}
			}
		}
	}
	return lists
}

func TestEveryListedGuaranteeIsASubtestAndEverySubtestIsListed(t *testing.T) {
	lists := promised(t)
	if len(lists) != len(contracts()) {
		t.Errorf("%d interfaces list guarantees, %d contracts are run", len(lists), len(contracts()))
	}
	for _, c := range contracts() {
		var tested []string
		for _, s := range c.specs {
			tested = append(tested, s.guarantee)
		}
		if !slices.Equal(tested, lists[c.of]) {
			t.Errorf("%s lists\n%s\nand tests\n%s", c.of, strings.Join(lists[c.of], "\n"), strings.Join(tested, "\n"))
		}
	}
}
