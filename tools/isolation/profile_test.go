//go:build linux && (amd64 || arm64)

package isolation

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestArgumentsMustBeAsOneOfTheEntriesSays(t *testing.T) {
	list, err := newAllowlist([]string{"echo -n *", "echo --sep=* one **", "unsafe:sh -c ls", "id"}, nil)
	must(t, err)
	for line, want := range map[string]bool{
		"echo -n a": true, "echo -n": false, "echo -n a b": false, "echo": false, "echo a": false, "echo -n -e": false,
		"echo -n ": false, "echo -n -": false,
		"echo --sep=, one": true, "echo --sep= one two three": true, "echo --sep=, one -x": false,
		"echo --sep=, one two -x": false, "echo --sep , one": false, "echo --sep=, two": false,
		"echo --sep=, one -x two": false, "echo --sep=, one  two": false, "echo -N a": false, "echo -n  a": false,
		"sh -c ls": true, "sh -c id": false, "sh": false, "sh -c ls x": false, "id": true, "id -u --anything": true,
		"/usr/bin/echo -n a": false,
	} {
		if _, err := list.find(strings.Split(line, " ")); (err == nil) != want || err != nil &&
			!errors.Is(err, ErrNotAllowed) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if got := list.entries(); !slices.Equal(got, []string{"echo --sep=* one **", "echo -n *", "id", "sh -c ls"}) {
		t.Errorf("the model is told %q", got)
	}
}

func TestEntriesThatContradictEachOtherOrMeanNothingAreRefused(t *testing.T) {
	for _, entries := range [][]string{
		{"echo", "echo a"},
		{"echo a", "echo"},
		{"echo a", "unsafe:echo b"},
		{"echo ** a"},
		{"echo a*b"},
		{"echo ***"},
		{"echo  a"},
		{"echo a "},
		{" echo"},
		{"sh -c ls"},
	} {
		if _, err := newAllowlist(entries, nil); err == nil || !strings.Contains(err.Error(), "tools.shell.allow") {
			t.Errorf("%q: %v", entries, err)
		}
	}
}

// FuzzNoSpellingOfArgumentsPassesAProfile holds the matching to another way of saying the same: a profile as a regular
// expression over the arguments. So an option passes if an entry has it as it stands, and in no other spelling.
func FuzzNoSpellingOfArgumentsPassesAProfile(f *testing.F) {
	list, err := newAllowlist([]string{"echo -n * --out=* **", "echo list"}, nil)
	must(f, err)
	const operand = `\x01[^-\x01\x00][^\x01\x00]*`
	want := regexp.MustCompile(`(?s)^echo(\x01-n` + operand + `\x01--out=[^\x01\x00]*(` + operand + `)*|\x01list)$`)
	for _, seed := range []string{
		"echo\x01list", "echo\x01-n\x01a\x01--out=x\x01b", "echo\x01-n\x01--out=x", "echo\x01-na\x01--out=x",
		"echo\x01--n\x01a\x01--out=x", "echo\x01-n\x01a\x01--out\x01x", "echo\x01-n\x01a\x01--out=x\x01-e",
		"echo\x01-n\x01a\x01--out=x\x01b\x01-e\x01c", "echo\x01-n\x01\x01--out=x", "echo\x01list\x01",
		"\x01echo\x01list", "ECHO\x01list", "echo\x01 list", "echo\x01\u2010n\x01a\x01--out=x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x01")
		if checkArgv(argv) != nil {
			return
		}
		if _, err := list.find(argv); (err == nil) != want.MatchString(line) {
			t.Errorf("%q: %v", argv, err)
		}
	})
}
