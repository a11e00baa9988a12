package operate

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corebot/corebot"
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
				if made, ok := call.Fun.(*ast.Ident); ok && slices.Contains(
					[]string{"reads", "changes", "walks", "ofFiles", "runs"}, made.Name) {
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

// A service without stores would panic if an operation began.
func TestEveryOperationRefusesArgumentsThatItWouldReadPast(t *testing.T) {
	for _, e := range table() {
		for args, want := range map[string]string{
			`{"typo":1}`:          "typo",
			`{"typo":1,"typo":2}`: "twice",
			`{"t":1,"\u0074":2}`:  "twice",
			`[]`:                  "must be an object",
			`"x"`:                 "must be an object",
			`{} {}`:               "",
			``:                    "",
			`{`:                   "",
			"{\"typo\":\"\xff\"}": "",
		} {
			_, err := e.in(&Service{})(t.Context(), []byte(args))
			if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %q", e.name, args, err, want)
			}
		}
	}
	if _, err := ListChats.entry().in(&Service{})(t.Context(), []byte(`{"Channel":"cli"}`)); err == nil ||
		!strings.Contains(err.Error(), "Channel") {
		t.Errorf("a name in other capitals: %v", err)
	}
}

func TestAServiceHasTheOperationsThatItCanCarryOut(t *testing.T) {
	type has = func(Kind) bool
	for name, c := range map[string]struct {
		service   *Service
		queryOnly bool
		has       has
	}{
		"of a running Corebot": {NewRunning(idle{}, Stores{}), false, func(Kind) bool { return true }},
		"on a locked home":     {New(Stores{}), false, func(k Kind) bool { return k != Running }},
		"on a query-only database": {New(Stores{}), true, func(k Kind) bool {
			return k != Running && k != Change
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ops := Operations(c.service, c.queryOnly)
			for _, e := range table() {
				if _, there := ops[e.name]; there != c.has(KindOf(e.name)) {
					t.Errorf("%s is there: %v", e.name, there)
				}
			}
		})
	}
}

// idle is a Corebot that is asked for nothing.
type idle struct{ Corebot }

func TestAPageOfAListInMemoryGoesOnBehindItsLastRow(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	self := func(s string) string { return s }
	var read []string
	for part := (Part{Limit: 2}); ; {
		page, err := partOf(all, part, self)
		if err != nil || len(page.Rows) > 2 {
			t.Fatalf("a page is %v: %v", page, err)
		}
		read = append(read, page.Rows...)
		if part.After = page.Next; part.After == "" {
			break
		}
		all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "a" }) // rows that went before
	}
	if strings.Join(read, "") != "abcde" {
		t.Errorf("the pages have %v", read)
	}
	if page, err := partOf(all, Part{After: "e", Limit: -1}, self); err != nil || page.Rows == nil ||
		len(page.Rows) != 0 {
		t.Errorf("behind the last row there is %v: %v", page, err)
	}
	for _, forged := range []string{"f", "\x00", strings.Repeat("x", 1<<20)} {
		if _, err := partOf(all, Part{After: forged}, self); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("the cursor %.10q is %v", forged, err)
		}
	}
	many := make([]int, MaxRows+1)
	for i := range many {
		many[i] = i
	}
	if page, err := partOf(many, Part{Limit: 1 << 40}, strconv.Itoa); err != nil || len(page.Rows) != MaxRows ||
		page.Next != strconv.Itoa(MaxRows-1) {
		t.Errorf("a page of any size has %d rows, then %q: %v", len(page.Rows), page.Next, err)
	}
}
