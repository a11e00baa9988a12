package corebot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestCredentialsAreComparedInConstantTime reads the code of each function that checks a credential. Each must compare
// by crypto/subtle or crypto/hmac. A test of the time that a comparison takes would be a matter of luck.
func TestCredentialsAreComparedInConstantTime(t *testing.T) {
	for name, file := range map[string]string{
		"same":    "channels/webhook/credentials.go",
		"Signs":   "internal/signedpost/signature.go",
		"guarded": "observability/server.go",
		"Decide":  "policy/bootstrap.go",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name {
				found = true
				if !calls(fn, "subtle.ConstantTimeCompare") && !calls(fn, "hmac.Equal") {
					t.Errorf("%s in %s does not compare in constant time", name, file)
				}
			}
		}
		if !found {
			t.Errorf("%s has no function %s: where are its credentials compared now?", file, name)
		}
	}
}

// calls says whether a function calls another, which is named with its package.
func calls(fn *ast.FuncDecl, other string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if of, ok := call.Fun.(*ast.SelectorExpr); ok {
				pkg, _ := of.X.(*ast.Ident)
				found = found || pkg != nil && pkg.Name+"."+of.Sel.Name == other
			}
		}
		return !found
	})
	return found
}
