package swap

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes files with their names as content, behind the word.
func write(t *testing.T, dir, word string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(word+" "+filepath.Base(name)), 0o600))
	}
}

// all is every file below a directory with what is in it.
func all(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		out.WriteString(rel + "=" + string(b) + "\n")
		return err
	}))
	return out.String()
}

// home is a directory with something old in two of three places, and something new for two of them.
func home(t *testing.T) (dir string, moves []Move) {
	t.Helper()
	root := t.TempDir()
	dir = filepath.Join(root, "data")
	write(t, root, "old", "data/db", "data/log", "workspace/a")
	write(t, root, "new", "data/room/db", "data/room/workspace/b", "data/room/agents/x/c")
	return dir, []Move{
		{Fresh: "room/db", Place: "db", Aside: "aside/db"},
		{Place: "log", Aside: "aside/log"},
		{Place: "nothing", Aside: "aside/nothing"},
		{Fresh: "room/workspace", Place: "../workspace", Aside: "aside/workspace"},
		{Fresh: "room/agents/x", Place: "../agents/x", Aside: "aside/agents/x"},
	}
}

const swapped = `agents/x/c=new c
data/aside/db=old db
data/aside/log=old log
data/aside/workspace/a=old a
data/db=new db
workspace/b=new b
`

func TestASwapPutsAllThatIsFreshInPlaceAndKeepsWhatWasThere(t *testing.T) {
	dir, moves := home(t)
	must(t, Do(dir, moves))
	if got := all(t, filepath.Dir(dir)); got != swapped || Pending(dir) {
		t.Errorf("pending %v, got\n%s", Pending(dir), got)
	}
	must(t, Finish(dir))
	if got := all(t, filepath.Dir(dir)); got != swapped {
		t.Errorf("Finish without a swap has changed something:\n%s", got)
	}
}

// A kill between two moves is played by making the moves by hand. cmd/corebot kills the program there.
func TestASwapThatWasCutShortAnywhereIsEndedByFinish(t *testing.T) {
	for made := 0; made <= 8; made++ {
		dir, moves := home(t)
		note := filepath.Join(dir, noteName)
		interrupted(t, dir, moves, made)
		if !Pending(dir) {
			t.Fatalf("after %d renames no swap is pending", made)
		}
		must(t, Finish(dir))
		if got := all(t, filepath.Dir(dir)); got != swapped {
			t.Errorf("after %d renames:\n%s", made, got)
		}
		if _, err := os.Lstat(note); err == nil {
			t.Error("the note stays")
		}
	}
}

// interrupted makes the first renames of a swap.
func interrupted(t *testing.T, dir string, moves []Move, renames int) {
	t.Helper()
	text := `[{"fresh":"room/db","place":"db","aside":"aside/db"},{"place":"log","aside":"aside/log"},
		{"fresh":"room/workspace","place":"../workspace","aside":"aside/workspace"},
		{"fresh":"room/agents/x","place":"../agents/x","aside":"aside/agents/x"}]`
	must(t, os.WriteFile(filepath.Join(dir, noteName), []byte(text), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "aside"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "../agents"), 0o700))
	for _, m := range moves {
		for _, step := range [][2]string{{m.Place, m.Aside}, {m.Fresh, m.Place}} {
			if step[0] == "" || !isThere(in(dir, step[0])) || renames == 0 {
				continue
			}
			must(t, os.Rename(in(dir, step[0]), in(dir, step[1])))
			renames--
		}
	}
}

func TestAPlaceThatSomebodyMadeAnewSinceTheCrashIsKeptToo(t *testing.T) {
	dir, moves := home(t)
	interrupted(t, dir, moves, 4)
	write(t, filepath.Dir(dir), "later", "workspace/d")
	must(t, Finish(dir))
	want := strings.Replace(swapped, "data/aside/workspace/a=old a\n",
		"data/aside/workspace/a=old a\ndata/aside/workspace.2/d=later d\n", 1)
	if got := all(t, filepath.Dir(dir)); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestASwapThatCannotEndIsTakenBack(t *testing.T) {
	dir, moves := home(t)
	before := all(t, filepath.Dir(dir))
	moves = append(moves, Move{Fresh: "room", Place: "room/inside", Aside: "aside/inside"}) // no rename can do that
	if err := Do(dir, moves); err == nil {
		t.Fatal("it succeeded")
	}
	if got := all(t, filepath.Dir(dir)); got != before || Pending(dir) {
		t.Errorf("pending %v, got\n%s", Pending(dir), got)
	}
}

func TestASwapWithNothingFreshToPutInPlaceChangesNothing(t *testing.T) {
	dir, moves := home(t)
	must(t, os.RemoveAll(filepath.Join(dir, "room/agents")))
	before := all(t, filepath.Dir(dir))
	if err := Do(dir, moves); err == nil {
		t.Fatal("it succeeded")
	}
	if got := all(t, filepath.Dir(dir)); got != before || Pending(dir) {
		t.Errorf("pending %v, got\n%s", Pending(dir), got)
	}
}

func TestANoteThatSomebodyHasSpoiltIsRefused(t *testing.T) {
	dir, _ := home(t)
	before := all(t, filepath.Dir(dir))
	must(t, os.WriteFile(filepath.Join(dir, noteName), []byte("["), 0o600))
	if err := Finish(dir); err == nil || !strings.Contains(err.Error(), noteName) {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(filepath.Join(dir, noteName)))
	if got := all(t, filepath.Dir(dir)); got != before {
		t.Errorf("got\n%s", got)
	}
}
