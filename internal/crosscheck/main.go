// Command crosscheck checks the types of this module's packages as another system has them:
//
//	crosscheck GOOS GOARCH
//
// It reads sources and compiles nothing. Of other modules and of the standard library it reads declarations only, so it
// takes seconds where `go vet` for another system compiles for minutes. Tests are left out.
//
// Exit codes: 0 the types are right, 1 they are not, 2 wrong usage.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: crosscheck GOOS GOARCH")
		os.Exit(2)
	}
	wrong, err := check(".", os.Args[1], os.Args[2])
	for _, w := range append(wrong, err) {
		if w != nil {
			fmt.Fprintln(os.Stderr, "crosscheck:", w)
		}
	}
	if err != nil || len(wrong) > 0 {
		os.Exit(1)
	}
	fmt.Printf("the types are right for %s/%s\n", os.Args[1], os.Args[2])
}

// listed is a package as `go list` tells of it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

// world are the packages that were checked, by their paths.
type world struct {
	files *token.FileSet
	sizes types.Sizes
	done  map[string]*types.Package
}

// check gives what is wrong with the types of the module in a directory. The error says why nobody can tell.
func check(dir, system, machine string) (wrong []error, err error) {
	sizes := types.SizesFor("gc", machine)
	if sizes == nil {
		return nil, fmt.Errorf("there is no GOARCH %q", machine)
	}
	list := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Dir, list.Stderr = dir, os.Stderr
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	w := world{token.NewFileSet(), sizes, map[string]*types.Package{"unsafe": types.Unsafe}}
	for from := json.NewDecoder(out); ; { // a package comes after those that it imports
		var p listed
		if err := from.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		wrong = append(wrong, w.add(p)...)
	}
	if err := list.Wait(); err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	return wrong, nil
}

// add checks a package. Errors in packages of others are left to them.
func (w world) add(p listed) (wrong []error) {
	own := p.Module != nil && p.Module.Main
	if p.ImportPath == "unsafe" {
		return nil
	}
	if own && p.Error != nil {
		return []error{errors.New(p.Error.Err)}
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(w.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, f)
	}
	c := types.Config{
		Importer: imports{w, p.ImportMap}, IgnoreFuncBodies: !own, Sizes: w.sizes,
		Error: func(err error) {
			if own {
				wrong = append(wrong, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		c.GoVersion = "go" + p.Module.GoVersion
	}
	w.done[p.ImportPath], _ = c.Check(p.ImportPath, w.files, files, nil) // Error has heard of everything
	return wrong
}

// imports are what a package calls other packages.
type imports struct {
	world
	names map[string]string
}

// Import implements [types.Importer].
func (i imports) Import(path string) (*types.Package, error) {
	if real, is := i.names[path]; is {
		path = real
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no package %s", path)
}
