package operate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

func TestEveryOperationIsInTheTableOnce(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if call, ok := spec.Values[0].(*ast.CallExpr); ok {
				if made, ok := call.Fun.(*ast.Ident); ok && (made.Name == "reads" || made.Name == "changes" ||
					made.Name == "walks") {
					declared++
				}
			}
			return true
		})
	}
	names := map[string]bool{}
	for _, e := range table() {
		if names[e.name] {
			t.Errorf("%s is there twice", e.name)
		}
		names[e.name] = true
	}
	if declared < 9 || len(names) != declared {
		t.Errorf("%d operations are declared, the table has %d", declared, len(names))
	}
}

func TestAQueryOnlyServiceHasNoChange(t *testing.T) {
	all, reading := Operations(New(Stores{}), false), Operations(New(Stores{}), true)
	for name := range all {
		if _, there := reading[name]; there != (KindOf(name) != Change) {
			t.Errorf("%s is there: %v", name, there)
		}
	}
	if len(reading) == 0 || len(reading) == len(all) {
		t.Errorf("of %d operations %d read", len(all), len(reading))
	}
}
