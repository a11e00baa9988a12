package skills_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
)

// lines are as many as front matter has room for, each made from its number.
func lines(line func(i int) string) string {
	var b strings.Builder
	for i := 0; ; i++ {
		next := line(i)
		if b.Len()+len(next) > skills.MaxFrontMatter-100 {
			return b.String()
		}
		b.WriteString(next)
	}
}

// bombs are small texts of which a careless reader makes much.
func bombs() map[string]string {
	same := func(s string) string { return lines(func(int) string { return s }) }
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return map[string]string{
		"laughs": laughs, "an alias of itself": "&a: *a\n*a:\n*a:\n", "brackets": "a: " + same("["),
		"braces": "a: " + same("{a: "), "dashes": "a:\n  " + same("- "), "question marks": same("? "),
		"colons": "a: " + same("a: "), "brackets with a key each": "a: " + same("[a: "),
		"steps":           lines(func(i int) string { return strings.Repeat(" ", i) + "k:\n" }),
		"steps of dashes": lines(func(i int) string { return strings.Repeat(" ", i) + "-\n" }), "quotes": same(`"`),
		"apostrophes": same("'"), "commas": "a: [" + same(","), "a long list": "a: [" + same("a,") + "]",
		"many keys": lines(func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }), "anchors": same("&a "),
		"tags": same("!a "), "aliases": same("*a "), "documents": same("--- a\n"),
		"a block of nothing":               "name: tea\ndescription: x\na: |\n" + same("\n"),
		"a block of lone carriage returns": "name: tea\ndescription: x\na: |\n" + same("\r"),
		"a long block":                     "a: |\n" + same("  x\n"), "a long folded text": "a: >\n" + same("  x\n\n"),
		"escapes": `a: "` + same(`\x41`) + `"`, "comments": same("#\n"), "line ends": same("\n"),
		"carriage returns": same("\r"), "tabs": same("\t"),
	}
}

// TestNoFrontMatterMakesMuchOfLittle: what is too deep took 420 MB without the check of its depth.
func TestNoFrontMatterMakesMuchOfLittle(t *testing.T) {
	const most = 64 << 20 // bytes; the most that one of them takes is 19 MB
	for name, bomb := range bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := skills.Parse([]byte("---\n" + bomb + "\n---\n"))
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > most {
				t.Errorf("%v, after %d MB", err, took>>20)
			}
		})
	}
}

func TestWhatIsNestedTooDeepIsRefusedAndWhatIsNotIsRead(t *testing.T) {
	for deep, shape := range map[string]func(n int) string{
		"brackets": func(n int) string { return "metadata: " + strings.Repeat("[", n) + "x" + strings.Repeat("]", n) },
		"braces": func(n int) string {
			return "metadata: " + strings.Repeat("{a: ", n) + "x" +
				strings.Repeat("}", n)
		},
		"steps": func(n int) string {
			steps := "metadata:"
			for i := range n {
				steps += "\n" + strings.Repeat(" ", i+1) + "k:"
			}
			return steps + " x"
		},
		"dashes": func(n int) string { return "metadata:\n  " + strings.Repeat("- ", n) + "x" },
	} {
		for n, want := range map[int]error{6: nil, 17: corebot.ErrTooLarge, 500: corebot.ErrTooLarge} {
			if _, _, err := skills.Parse([]byte(page("name: tea", "description: Makes tea.",
				shape(n)))); !errors.Is(err, want) {
				t.Errorf("%d %s: %v, want %v", n, deep, err, want)
			}
		}
	}
	// Much that is side by side is not deep.
	wide := "metadata: [" + strings.Repeat("[a], {b: c, d: e}, ", 100) + "]\nmore:\n" +
		strings.Repeat("  - a: b\n    c: d\n", 100)
	if _, _, err := skills.Parse([]byte(page("name: tea", "description: Makes tea.", wide))); err != nil {
		t.Error(err)
	}
}

func TestEachLimitIsRefusedOneByteBehindIt(t *testing.T) {
	head := "---\nname: tea\ndescription: Makes tea.\n#"
	front := func(n int) string { return head + strings.Repeat("x", n-(len(head)-len("---\n"))-1) + "\n---\n" }
	whole := func(n int) string { return front(100) + strings.Repeat("x", n-len(front(100))) }
	for what, file := range map[string]func(over int) string{
		"the front matter": func(over int) string { return front(skills.MaxFrontMatter + over) },
		"the file":         func(over int) string { return whole(skills.MaxFile + over) },
	} {
		if _, _, err := skills.Parse([]byte(file(0))); err != nil {
			t.Errorf("%s at its limit: %v", what, err)
		}
		if _, _, err := skills.Parse([]byte(file(1))); !errors.Is(err, corebot.ErrTooLarge) {
			t.Errorf("%s over its limit: %v", what, err)
		}
	}
}
