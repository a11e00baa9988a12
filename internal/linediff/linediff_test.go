package linediff

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// apply makes the new version of the old one and hunks.
func apply(t *testing.T, old string, hunks []Hunk) string {
	t.Helper()
	lines := strings.SplitAfter(old, "\n")
	var out strings.Builder
	next := 0 // of the old lines
	for _, h := range hunks {
		start := max(h.Old-1, 0)
		out.WriteString(strings.Join(lines[next:start], ""))
		next = start
		for _, l := range h.Lines {
			if l.Op != '+' {
				if next >= len(lines) || lines[next] != l.Text {
					t.Fatalf("line %d of the old version is not %q", next+1, l.Text)
				}
				next++
			}
			if l.Op != '-' {
				out.WriteString(l.Text)
			}
		}
	}
	return out.String() + strings.Join(lines[next:], "")
}

func compare(t *testing.T, old, new string) []Hunk {
	t.Helper()
	hunks, err := Compare([]byte(old), []byte(new))
	if err != nil {
		t.Fatal(err)
	}
	return hunks
}

func render(t *testing.T, old, new string) string {
	t.Helper()
	text, left := Render(compare(t, old, new), 1<<20)
	if left != 0 {
		t.Fatalf("%d rows are left out", left)
	}
	return text
}

func TestADiffIsShownAsPeopleKnowIt(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"a line":          {"a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		"a new file":      {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"an emptied file": {"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		"no line end":     {"a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ no line end at the end of the file\n+a\n"},
		"a forged note": {
			"", "\\ no line end at the end of the file\n@@ -1,1 +1,1 @@\n",
			"@@ -0,0 +1,2 @@\n+\\ no line end at the end of the file\n+@@ -1,1 +1,1 @@\n",
		},
		"nothing":     {"a\n", "a\n", ""},
		"a tab":       {"", "\ta\n", "@@ -0,0 +1,1 @@\n+\ta\n"},
		"a backslash": {"", "a\\u202e\n", "@@ -0,0 +1,1 @@\n+a\\u202e\n"},
		"a bidi character": {
			"", "a\u202eb\\\n",
			"@@ -0,0 +1,1 @@\n\\ written with escapes: the next 1 rows, with \\\\ for \\\n+a\\u202eb\\\\\n",
		},
		"an escape of a TTY": {
			"", "\x1b[2J\n",
			"@@ -0,0 +1,1 @@\n\\ written with escapes: the next 1 rows, with \\\\ for \\\n+\\u001b[2J\n",
		},
		"invalid UTF-8": {
			"", "\xff\uFFFD\n",
			"@@ -0,0 +1,1 @@\n\\ written with escapes: the next 1 rows, with \\\\ for \\\n+\\xff\uFFFD\n",
		},
		"carriage returns": {
			"", "a\r\nb\r\n",
			"@@ -0,0 +1,2 @@\n\\ written with escapes: the next 2 rows, with \\\\ for \\\n+a\\u000d\n+b\\u000d\n",
		},
		"a text behind blanks": {
			"", "ok" + strings.Repeat(" ", 5000) + "evil\n",
			"@@ -0,0 +1,1 @@\n\\ the next 13 rows are one line of 5007 bytes\n",
		},
		"blanks in a row": {
			"", "ok" + strings.Repeat(" ", 100) + "\tevil\n",
			"@@ -0,0 +1,1 @@\n\\ written with escapes: the next 1 rows, with \\\\ for \\\n+ok\\{100 spaces, 1 " +
				"tabs}evil\n",
		},
	} {
		if got := render(t, c.old, c.new); got != c.want && !(name == "a text behind blanks" &&
			strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestTheChangeWithinALongLineIsShownWhereverItIs: a line of a million bytes must not hide one word.
func TestTheChangeWithinALongLineIsShownWhereverItIs(t *testing.T) {
	long := strings.Repeat("wörter ", 40_000)
	for name, at := range map[string]int{"the beginning": 0, "the middle": 80_001, "the end": len(long)} {
		new := strings.ToValidUTF8(long[:at], "") + "pay mallory" + long[at:]
		got := render(t, long+"\n", new+"\n")
		if !strings.Contains(got, "pay mallory") || len(got) > 1500 {
			t.Errorf("%s: %d bytes are shown:\n%.2000s", name, len(got), got)
		}
		if at > 0 && !strings.Contains(got,
			`bytes at the beginning of the next line are the same in the old and the new one`) {
			t.Errorf("%s: what is left out is not said:\n%s", name, got)
		}
	}
	got := render(t, "", long+"\n") // a new line is shown whole
	if n := strings.Count(got, "wörter"); n < 39_000 || !strings.Contains(got, "rows are one line of") {
		t.Errorf("%d words of 40000 are shown", n)
	}
}

func TestALongLineThatStaysIsCutAndSaysSo(t *testing.T) {
	got := render(t, "a\n"+strings.Repeat("x", 1000)+"\n", "b\n"+strings.Repeat("x", 1000)+"\n")
	if want := "\n " + strings.Repeat("x", around) +
		"\n\\ 960 more bytes of this line, which stays as it is\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s", got)
	}
}

func TestWhatIsOverTheLimitIsCounted(t *testing.T) {
	hunks := compare(t, "", strings.Repeat("line\n", 100))
	text, left := Render(hunks, 64)
	if rows := strings.Count(text, "\n"); len(text) > 64 || rows+left != 101 || rows < 5 {
		t.Errorf("%d rows in %d bytes, %d are left out", rows, len(text), left)
	}
	if added, removed := Count(hunks); added != 100 || removed != 0 {
		t.Errorf("+%d -%d", added, removed)
	}
}

func TestFilesThatAreTooLargeAreNotCompared(t *testing.T) {
	for _, v := range []string{strings.Repeat("x", MaxBytes+1), strings.Repeat("\n", MaxLines+1)} {
		if _, err := Compare([]byte(v), nil); !errors.Is(err, ErrTooLarge) {
			t.Errorf("an old version: %v", err)
		}
		if _, err := Compare(nil, []byte(v)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a new version: %v", err)
		}
	}
}

// FuzzADiffMakesTheNewVersionAndHidesNothing applies the hunks, and reads what is shown back.
func FuzzADiffMakesTheNewVersionAndHidesNothing(f *testing.F) {
	for _, s := range [][2]string{
		{"a\nb\n", "a\nc\n"},
		{"", "x"},
		{"x", ""},
		{"a\n\\ No newline at end of file\n", "a"},
		{"\r\n", "\n"},
		{"\x00\xff", "\u202e\\"},
		{"--- a\n+++ b\n@@ -1,1 +1,1 @@\n", "@@ x\n"},
		{strings.Repeat("ab ", 300), strings.Repeat("ab ", 299) + "x"},
		{"\\ no line end\n", "\\x41\t\u2028\n"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, old, new string) {
		hunks := compare(t, old, new)
		if got := apply(t, old, hunks); got != new {
			t.Fatalf("the hunks make %q of %q, want %q", got, old, new)
		}
		text, left := Render(hunks, 1<<22)
		if left != 0 || !utf8.ValidString(text) {
			t.Fatalf("%d rows are left out of %q", left, text)
		}
		for row := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if text != "" && (row == "" || !strings.ContainsRune("@ -+\\", rune(row[0])) ||
				strings.ContainsFunc(row, hidden)) {
				t.Fatalf("the row %q of %q", row, text)
			}
		}
		if longest(hunks) <= maxRow {
			if got := readBack(t, text); !slices.EqualFunc(got, hunks, func(a,
				b Hunk,
			) bool {
				return slices.Equal(a.Lines, b.Lines)
			}) {
				t.Fatalf("%q reads as %+v, want %+v", text, got, hunks)
			}
		}
	})
}

func longest(hunks []Hunk) (n int) {
	for _, h := range hunks {
		for _, l := range h.Lines {
			n = max(n, len(l.Text))
		}
	}
	return n
}

// readBack is what an attentive reader makes of a rendered diff whose lines are short.
func readBack(t *testing.T, text string) (hunks []Hunk) {
	t.Helper()
	escaped := 0
	for row := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case row == "":
		case row[0] == '@':
			hunks = append(hunks, Hunk{})
		case row == noNewEnd:
			lines := hunks[len(hunks)-1].Lines
			lines[len(lines)-1].Text = strings.TrimSuffix(lines[len(lines)-1].Text, "\n")
		case row[0] == '\\':
			if _, err := fmt.Sscanf(row, `\ written with escapes: the next %d rows`, &escaped); err != nil {
				t.Fatalf("the note %q: %v", row, err)
			}
		default:
			line := row[1:]
			if escaped > 0 {
				line = unescape(t, line)
				escaped--
			}
			at := &hunks[len(hunks)-1]
			at.Lines = append(at.Lines, Line{row[0], line + "\n"})
		}
	}
	return hunks
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	var out bytes.Buffer
	for s != "" {
		var n, high, low int
		switch {
		case s[0] != '\\':
			out.WriteByte(s[0])
			s = s[1:]
		case s[1] == '\\':
			out.WriteByte('\\')
			s = s[2:]
		case s[1] == 'x':
			fmt.Sscanf(s, `\x%02x`, &n)
			out.WriteByte(byte(n))
			s = s[4:]
		case s[1] == 'u':
			fmt.Sscanf(s, `\u%04x`, &high)
			s = s[6:]
			if 0xD800 <= high && high < 0xDC00 {
				fmt.Sscanf(s, `\u%04x`, &low)
				high, s = 0x10000+(high-0xD800)<<10+(low-0xDC00), s[6:]
			}
			out.WriteRune(rune(high))
		case s[1] == '{':
			inside, rest, _ := strings.Cut(s[2:], "}")
			for part := range strings.SplitSeq(inside, ", ") {
				var what string
				fmt.Sscanf(part, "%d %s", &n, &what)
				out.WriteString(strings.Repeat(map[string]string{"spaces": " ", "tabs": "\t"}[what], n))
			}
			s = rest
		default:
			t.Fatalf("the escape %q", s)
		}
	}
	return out.String()
}

func TestTheEscapesAreThoseOfArguments(t *testing.T) {
	if got := safe("\u202e\x00"); got != corebot.Plainly("\u202e\x00") {
		t.Errorf("got %s", got)
	}
}
