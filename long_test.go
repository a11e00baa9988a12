package corebot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestScriptsLongNamesEveryTestWithAWideForm: a suite whose wide form nobody plays would shrink unseen.
func TestScriptsLongNamesEveryTestWithAWideForm(t *testing.T) {
	script, err := os.ReadFile("scripts/long")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(script), "\ntests=(\n")
	list, _, _ = strings.Cut(list, "\n)\n")
	named := strings.Fields(list)
	var wide []string
	for _, pkg := range packagesWith(t, longImport) {
		wide = append(wide, wideTests(t, pkg)...)
	}
	slices.Sort(wide)
	if len(wide) < 20 || !slices.Equal(named, wide) {
		t.Errorf("scripts/long names\n%s\nwant\n%s", strings.Join(named, "\n"), strings.Join(wide, "\n"))
	}
}

const longImport = `"github.com/corebot/corebot/internal/long"`

// packagesWith are the directories of tests that have a text.
func packagesWith(t *testing.T, text string) []string {
	t.Helper()
	found := map[string]bool{}
	for _, file := range testFiles(t) {
		if content, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if dir := filepath.Dir(file); dir != "." && strings.Contains(string(content), text) {
			found[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// testFiles are the files of the module that have its tests.
func testFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go", "*/*/*/*_test.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// wideTests are the tests of a package that look at the width, by themselves or by what they use. A method counts as
// used where its name is, if no other method has that name.
func wideTests(t *testing.T, dir string) (tests []string) {
	t.Helper()
	uses, methods := map[string]map[string]bool{}, map[string]int{}
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		looks := slices.ContainsFunc(tree.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == longImport })
		for _, decl := range tree.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = "." + name
					methods[name]++
				}
				noteNames(uses, name, d, looks)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						noteNames(uses, v.Names[0].Name, v, looks)
					}
				}
			}
		}
	}
	wide := map[string]bool{wideness: true}
	for grows := true; grows; {
		grows = false
		for name, used := range uses {
			for u := range used {
				if wide[u] && methods[u] < 2 && !wide[name] {
					wide[name], grows = true, true
				}
			}
		}
	}
	isTest := regexp.MustCompile(`^Test[A-Z]`)
	for name := range wide {
		if isTest.MatchString(name) && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	return tests
}

// wideness stands for everything of package internal/long.
const wideness = "long.*"

// noteNames notes what a declaration uses: functions and variables by their names, methods with a point in front.
// looks says that the file imports internal/long.
func noteNames(uses map[string]map[string]bool, name string, in ast.Node, looks bool) {
	if uses[name] == nil {
		uses[name] = map[string]bool{}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == "long" && looks {
				uses[name][wideness] = true
			}
			uses[name]["."+n.Sel.Name] = true
			ast.Inspect(n.X, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					uses[name][id.Name] = true
				}
				return true
			})
		case *ast.Ident:
			uses[name][n.Name] = true
		}
		return true
	})
}

// TestTheShortFormStandsInForWhatOnlyTheWideFormHas: a test that the short form leaves out names one of its package
// that the short form plays. And no test of the short form starts a browser, whose pages cost more than most packages.
func TestTheShortFormStandsInForWhatOnlyTheWideFormHas(t *testing.T) {
	var only, browsers []string
	for _, dir := range packagesWith(t, longImport) {
		instead, browses := map[string]string{}, map[string]bool{}
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range tree.Decls {
				d, is := decl.(*ast.FuncDecl)
				if !is || d.Recv != nil || !strings.HasPrefix(d.Name.Name, "Test") {
					continue
				}
				instead[d.Name.Name], browses[d.Name.Name] = standsIn(d)
			}
		}
		for name, other := range instead {
			if other != "" {
				only = append(only, name)
				if other, is := instead[other]; !is || other != "" {
					t.Errorf("%s of %s names %q, which the short form does not play", name, dir, instead[name])
				}
			} else if browses[name] {
				browsers = append(browsers, name)
			}
		}
	}
	if len(only) == 0 || len(browsers) > 0 {
		t.Errorf("only in the wide form are %v; the short form has browsers in %v, want none", only, browsers)
	}
}

// standsIn is the test that a test names for the short form, and whether the test starts a browser.
func standsIn(test *ast.FuncDecl) (instead string, browses bool) {
	ast.Inspect(test, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			if of, is := f.X.(*ast.Ident); is && of.Name == "long" && f.Sel.Name == "Only" {
				instead = strings.Trim(call.Args[1].(*ast.BasicLit).Value, `"`)
			}
		case *ast.Ident:
			browses = browses || f.Name == "startBrowsing" || f.Name == "chromium"
		}
		return true
	})
	return instead, browses
}
