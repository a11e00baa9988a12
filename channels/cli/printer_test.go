package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestLinesThatTheTerminalCanBreakItselfStayWhole(t *testing.T) {
	const width, room = 20, 4
	for what, c := range map[string]struct {
		line string
		want []string
	}{
		"short":                   {"abc", []string{"abc"}},
		"short but for its bytes": {strings.Repeat("é", 19), []string{strings.Repeat("é", 19)}},
		"longer than a row":       {strings.Repeat("x", 50), []string{strings.Repeat("x", 50)}},
		"in color": {
			"\x1b[33m" + strings.Repeat("x", 50) + "\x1b[m",
			[]string{"\x1b[33m" + strings.Repeat("x", 50) + "\x1b[m"},
		},
		"full rows": {strings.Repeat("x", 40), []string{strings.Repeat("x", 40) + " "}},
		"longer than all the room": {strings.Repeat("x", 80), []string{
			strings.Repeat("x", 19),
			strings.Repeat("x", 19), strings.Repeat("x", 19), strings.Repeat("x", 19), "xxxx",
		}},
		"characters two columns wide": {strings.Repeat("語", 11), []string{strings.Repeat("語", 9), "語語"}},
	} {
		if got := fold(c.line, width, room); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestABrokenLineHasItsColorsInEachPiece(t *testing.T) {
	for _, piece := range fold("\x1b[33m"+strings.Repeat("語", 30)+"\x1b[m", 20, 4) {
		if !strings.HasPrefix(piece, "\x1b[33m") || !strings.HasSuffix(piece, "\x1b[m") ||
			ansi.StringWidth(piece) > 19 {
			t.Errorf("a piece is %q", piece)
		}
	}
}

func TestAPieceOfPrintingIsCountedInRows(t *testing.T) {
	d := newDesk(t)
	d.ready = true
	// 4, 8 and 1 rows; half the screen has 11
	d.print(strings.Repeat("x", 3*d.width+5) + "\n" + strings.Repeat("y", 7*d.width+5) + "\nz")
	for _, left := range []int{2, 0} {
		if d.pump() == nil {
			t.Fatal("nothing was printed")
		}
		if got := len(d.printer.queue[0].lines); got != left {
			t.Fatalf("%d lines are left, not %d", got, left)
		}
		d.onPrinted()
	}
}

func TestCodeIsNotBroken(t *testing.T) {
	d := newDesk(t)
	code := "func main() { " + strings.Repeat("x", 100) + " }"
	d.show(reply("r", "", "```go\n"+code+"\n```"))
	if !strings.Contains(d.printed(), code) {
		t.Errorf("it was broken:\n%s", d.printed())
	}
}
