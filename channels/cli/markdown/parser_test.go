package markdown

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/markdown"
)

// plain lays text out without color.
func plain(t *testing.T, s string, width int) string {
	t.Helper()
	return render(t, Options{NoColor: true}, s, width)
}

func render(t *testing.T, o Options, s string, width int) string {
	t.Helper()
	out, ok := New(o).Render(s, width)
	if !ok {
		t.Fatalf("%.40q was not laid out at %d columns", s, width)
	}
	return out
}

func TestMarksAreReadAsAnAnswerMeansThem(t *testing.T) {
	for in, want := range map[string]string{
		"List<std::string> <b>x</b> &amp; &#27;": "List<std::string> <b>x</b> &amp; &#27;",
		"<div>\n*a*\n</div>":                     "<div>\n*a*\n</div>",
		"[a\n\nb](c) *d\n\ne*":                   "[a\n\nb](c) *d\n\ne*",
		"- > a\n  >\n  > >\n- b":                 "• │ a\n• b",
		`\*a\* C:\dir 5 * 3 * 2 snake_case_name`: `*a* C:\dir 5 * 3 * 2 snake_case_name`,
		"a\nb  \nc\\\nd":                         "a\nb\nc\nd",
		"`` a ` b ``, `c\nd`":                    "`a ` b`, `c d`",
		"[a [b](/c)](/d) ![e](/f)":               "[a b (/c)](/d) image: e (/f)",
		"[a] [b][a] [a][]\n\n[a]: /x 'title'":    "a (/x) b (/x) a (/x)",
		"[x]( </a b> ) [](/y) [z]()":             "x (/a b)  (/y) z",
		"- [ ] a\n- [x] b\n- [X] c\n- [y] d":     "[ ] a\n[x] b\n[X] c\n• [y] d",
		"1. [x] a":                               "1. [x] a",
		"-\n\n---\n\n***":                        "•\n\n────────\n\n────────",
		"3) a\n4) b\n\n>\n\n# \n\nc":             "3) a\n4) b\n\n#\n\nc",
	} {
		if got := strings.TrimRight(plain(t, in, 80), "\n"); got != want {
			t.Errorf("%q became\n%s\nand not\n%s", in, got, want)
		}
	}
}

func TestASingleTildeIsNoStyle(t *testing.T) {
	if out := render(t, Options{}, "~5~ ~~6~~ ~~~7~~~", 80); out != "~5~ \x1b[9m6\x1b[m ~~~7~~~\n" {
		t.Errorf("got %q", out)
	}
}

func TestMarksInAnAddressAreNoStyles(t *testing.T) {
	const in = "see:https://e.org/~a/_b_c_ (https://e.org/*a*) **https://e.org/x** xhttps://e.org/_a_"
	out := render(t, Options{}, in, 200)
	for _, want := range []string{
		"\x1b[4;34mhttps://e.org/~a/_b_c\x1b[m_", "(\x1b[4;34mhttps://e.org/*a\x1b[m*)",
		"\x1b[1;4;34mhttps://e.org/x\x1b[m xhttps",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
}

func TestContainersStopAtADepth(t *testing.T) {
	const deep = 10_000
	for mark, drawn := range map[string]string{">": "│", "- ": "•", "* ": "•", "> - ": "│"} {
		out := plain(t, strings.Repeat(mark, deep)+"x\n"+strings.Repeat("y\n", 100), 200)
		first, _, _ := strings.Cut(out, "\n")
		if n := strings.Count(first, drawn); n == 0 || n > markdown.MaxNesting {
			t.Errorf("%q is drawn %d deep", mark, n)
		}
		if n := strings.Count(out, mark[:1]); n < deep-markdown.MaxNesting {
			t.Errorf("of %d %q only %d are text", deep, mark, n)
		}
	}
}

func TestMarksStopWhenTheirAllowanceIsUsedUp(t *testing.T) {
	for _, mark := range []string{"*a* ", "`a` ", "~~a~~ ", "[a](b) "} {
		out := render(t, Options{}, strings.Repeat(mark, MaxText/len(mark)), 80)
		if !strings.HasPrefix(out, "\x1b[") {
			t.Errorf("%q is not laid out at all: %.80q", mark, out)
		}
		if !strings.HasSuffix(strings.TrimSpace(out), strings.TrimSpace(mark)) {
			t.Errorf("%q is laid out to the end: %q", mark, out[len(out)-80:])
		}
	}
}

func TestDeeplyNestedInlineMarksAreLaidOut(t *testing.T) {
	const deep = 10_000
	for open, end := range map[string]string{"*_": "_*", "[": "](a)", "![": "](a)", "**~~": "~~**"} {
		n := min(deep, MaxText/(len(open)+len(end))-1)
		if out := plain(t, strings.Repeat(open, n)+"x"+strings.Repeat(end, n), 80); !strings.Contains(out, "x") {
			t.Errorf("%q: the text is gone", open)
		}
	}
}

func TestManyDefinitionsOfLinksAreText(t *testing.T) {
	var lines strings.Builder
	for i := range markdown.MaxDefinitions + 1 {
		fmt.Fprintf(&lines, "[r%d]: /u\n", i)
	}
	if out := plain(t, lines.String(), 80); !strings.Contains(out, "[r0]: /u") {
		t.Errorf("they were read:\n%s", out)
	}
	if out := plain(t, "[r0]: /u\n\n[r0]", 80); strings.Contains(out, "[") {
		t.Errorf("a single one was not read:\n%s", out)
	}
}
