package markdown

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot/internal/markdown"
)

func TestTablesAreReadAsTheyAreWritten(t *testing.T) {
	for in, want := range map[string]string{
		"a|b\n-|-\n1|2":                "a │ b\n──┼──\n1 │ 2",
		"|a|b|\n|:-|-:|\n|1|22|\n|333": "a   │  b\n────┼───\n1   │ 22\n333 │",
		"text\na|b\n-|-\nno bar":       "text\n\na      │ b\n───────┼──\nno bar │",
		"|a|\n|-|\n|1|":                "a\n─\n1",
		"a|b\n-|-\n1|2|3|4":            "a │ b\n──┼──────\n1 │ 2|3|4",
		"a|b\n-|-\n`x\\|y`|\\|":        "a     │ b\n──────┼──\n`x|y` │ |",
		"a|b\n-|-|-\n":                 "a|b\n-|-|-",
		"a|b\n-|x\n":                   "a|b\n-|x",
		"a\n:-:\nb":                    "a\n:-:\nb",
		"a|b\n:-:|-\n語|2":              "a  │ b\n───┼──\n語 │ 2",
		"> a|b\n> -|-\n> 1|2":          "│ a │ b\n│ ──┼──\n│ 1 │ 2",
		"- a|b\n  -|-\n  1|2":          "• a │ b\n  ──┼──\n  1 │ 2",
	} {
		if got := strings.TrimRight(plain(t, in, 80), "\n"); got != want {
			t.Errorf("%q became\n%s\nand not\n%s", in, got, want)
		}
	}
}

func TestATableWithMoreColumnsThanAnyTerminalIsText(t *testing.T) {
	in := strings.Repeat("a|", markdown.MaxTableColumns+1) + "\n" + strings.Repeat("-|", markdown.MaxTableColumns+1)
	if out := plain(t, in, 1000); strings.Contains(out, "│") {
		t.Errorf("it was drawn:\n%.200s", out)
	}
}

func TestATableFitsItsWidthOrIsDrawnRowByRow(t *testing.T) {
	const in = "name|what it is|n\n:-|:-:|-:\n語語語|many words that have to be " +
		"broken|1\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx|[link](https://example.org/long/address)|22"
	for width := MinWidth; width < 120; width++ {
		out := plain(t, in, width)
		bars := map[int]bool{}
		for l := range strings.Lines(out) {
			l = strings.TrimRight(l, "\n")
			if w := ansi.StringWidth(l); w > width && !strings.Contains(l, "https") {
				t.Fatalf("%d columns of %d: %q", w, width, l)
			}
			if before, _, ok := strings.Cut(l, "│"); ok {
				bars[ansi.StringWidth(before)] = true
			}
		}
		if len(bars) > 1 {
			t.Fatalf("at %d columns the bars are not below each other:\n%s", width, out)
		}
		if byRow := strings.Contains(out, "n: 22"); byRow != (width < len("22")+2*minColumn+2*columnGap) {
			t.Errorf("at %d columns it is drawn as\n%s", width, out)
		}
	}
}

func TestATableOfHeadingsOnlyIsNeverEmpty(t *testing.T) {
	in := strings.Repeat("a|", 9) + "\n" + strings.Repeat("-|", 9)
	if out := plain(t, in, MinWidth); out != strings.Repeat("a\n", 9) {
		t.Errorf("got %q", out)
	}
}

func TestTheWidestColumnsAreNarrowed(t *testing.T) {
	for _, c := range []struct {
		widths, want []int
		room         int
		ok           bool
	}{
		{[]int{3, 5}, []int{3, 5}, 8, true},
		{[]int{3, 50, 20}, []int{3, 11, 11}, 25, true},
		{[]int{3, 50, 7}, []int{3, 15, 7}, 25, true},
		{[]int{9, 9}, []int{9, 9}, 2*minColumn - 1, false},
		{[]int{1, 1, 9}, []int{1, 1, minColumn}, minColumn + 2, true},
		{[]int{1}, []int{1}, -3, false},
	} {
		got := slices.Clone(c.widths)
		ok := fit(got, c.room)
		if ok != c.ok || ok && !slices.Equal(got, c.want) {
			t.Errorf("fit(%v, %d) = %v, %v; want %v, %v", c.widths, c.room, got, ok, c.want, c.ok)
		}
	}
}
