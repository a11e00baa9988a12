package markup

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// marked shows spans as text, each change of looks in brackets.
func marked(spans []Span) string {
	var b strings.Builder
	names := []string{"bold", "italic", "struck", "code"}
	for i, s := range spans {
		if i > 0 {
			was := spans[i-1]
			if was.Text = s.Text; was == s {
				b.WriteString(s.Text)
				continue
			}
		}
		var looks []string
		for bit, name := range names {
			if s.Style&(1<<bit) != 0 {
				looks = append(looks, name)
			}
		}
		if s.Block != 0 {
			looks = append(looks, "block")
		}
		if s.Quote != 0 {
			looks = append(looks, "quote")
		}
		if s.Lang != "" {
			looks = append(looks, s.Lang)
		}
		if s.Link != "" {
			looks = append(looks, s.Link)
		}
		fmt.Fprintf(&b, "[%s]%s", strings.Join(looks, " "), s.Text)
	}
	return strings.TrimPrefix(b.String(), "[]")
}

func TestAnAnswerHasTheLooksOfItsMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                       "plain",
		"a **b *c* d** e":                             "a [bold]b [bold italic]c[bold] d[] e",
		"~~a~~ ~5~ `x*y*`":                            "[struck]a[] ~5~ [code]x*y*",
		"# Title\n\ntext":                             "[bold]Title[]\n\ntext",
		"one\ntwo\n\nthree":                           "one\ntwo\n\nthree",
		"- a\n- b\n  - c\n\n1. x":                     "• a\n• b\n  • c\n\n1. x",
		"3) a\n4) b":                                  "3) a\n4) b",
		"- [x] done\n- [ ] open":                      "[x] done\n[ ] open",
		"-\n- b":                                      "• \n• b",
		"> a\n>\n>     b\n>\n> c":                     "[quote]a\n\n[block quote]b[quote]\n\nc",
		"> a\n> b\n>\n> **c**":                        "[quote]a\nb\n\n[bold quote]c",
		"> a\n\ntext\n\n> b":                          "[quote]a[]\n\ntext\n\n[quote]b",
		"```go\nx := 1\n\n\ty\n```":                   "[block go]x := 1\n\n\ty",
		"    a\n    b":                                "[block]a\nb",
		"- x\n\n  ```\n  code\n  ```\n- y":            "• x\n\n  [block]code[]\n\n• y",
		"- ```\n  code\n  ```":                        "• \n[block]code",
		"[text](https://a.org/b)":                     "[https://a.org/b]text",
		"[`text`](https://a.org)":                     "[code https://a.org]text",
		"[text](/a/b) ![x](http://c.org)":             "text (/a/b) image: [http://c.org]x",
		"[a](javascript:b) [](/c) [d]()":              "a (javascript:b) /c d",
		"[a][b]\n\n[b]: /" + strings.Repeat("x", 999): "a (/" + strings.Repeat("x", maxAddress-1) + ")",
		"see https://a.org/_b_.":                      "see https://a.org/_b_.",
		`\*a\* C:\dir \\ <b>&amp;`:                    `*a* C:\dir \ <b>&amp;`,
		"a\n\n---\n\nb":                               "a\n\n———\n\nb",
		"a|b\n-|-:\n1|22\n":                           "[block]a |  b\n--+---\n1 | 22",
		"a|b\n-|-\n`x\\|y`|**c**":                     "[block]a   | b\n----+--\nx|y | c",
		"[x]: /only":                                  "[x]: /only",
		"":                                            "",
	} {
		spans, to := Parse(in).Piece(0, 1<<20, utf8.RuneCountInString)
		if got := marked(spans); got != want || to != len(in) {
			t.Errorf("%q became\n%q and not\n%q (%d of %d bytes)", in, got, want, to, len(in))
		}
	}
}

func TestAReplyIsMarkdownAndAnyOtherMessageIsShownAsItIs(t *testing.T) {
	const source = "run `rm` **now**"
	for kind, want := range map[corebot.Kind]string{
		corebot.KindReply: "run rm now", corebot.KindNotice: source, "": source,
	} {
		if got := Text(pieces(t, Of(kind, source), 1<<10)[0]); got != want {
			t.Errorf("a message of the kind %q is shown as %q", kind, got)
		}
	}
}

func TestATableThatIsWiderThanAPhoneIsShownRowByRow(t *testing.T) {
	long := strings.Repeat("word ", 12)
	in := "name|what\n-|-\nfirst|" + long + "\nsecond|[x](http://a.org)\n"
	spans, _ := Parse(in).Piece(0, 4096, utf8.RuneCountInString)
	want := "name\nwhat\n\n[bold]name: []first\n[bold]what: []" + strings.TrimSpace(long) +
		"\n\n[bold]name: []second\n[bold]what: [http://a.org]x"
	if got := marked(spans); got != want {
		t.Errorf("got\n%q and not\n%q", got, want)
	}
}

// pieces cuts a whole text.
func pieces(t *testing.T, d Document, limit int) (all [][]Span) {
	t.Helper()
	for from := 0; ; {
		spans, to := d.Piece(from, limit, utf8.RuneCountInString)
		n := 0
		for _, s := range spans {
			n += utf8.RuneCountInString(s.Text)
		}
		if n > limit {
			t.Fatalf("a piece has %d characters, the limit is %d: %q", n, limit, marked(spans))
		}
		if len(spans) > 0 {
			all = append(all, spans)
		}
		if to == len(d.source) {
			return all
		}
		if to <= from || !utf8.RuneStart(d.source[to]) {
			t.Fatalf("a piece from %d ends at %d", from, to)
		}
		from = to
	}
}

func TestAStyleGoesOnInTheNextPiece(t *testing.T) {
	lines := strings.Repeat("    if x { y() }\n", 60)
	for in, looks := range map[string]string{
		"```go\n" + lines + "```":                                     "[block go]    if",
		"**" + strings.Repeat("many words, ", 60) + "a**":             "[bold]many",
		"> " + strings.Repeat("many words, ", 60):                     "[quote]many",
		"[" + strings.Repeat("many words, ", 60) + "a](http://a.org)": "[http://a.org]many",
		"`" + strings.Repeat("many words, ", 60) + "a`":               "[code]many",
	} {
		all := pieces(t, Parse(in), 300)
		if len(all) < 2 {
			t.Fatalf("%.20q has %d pieces", in, len(all))
		}
		for _, p := range all[1:] {
			other := strings.Replace(looks, "many", "words", 1)
			if got := marked(p); !strings.HasPrefix(got, looks) && !strings.HasPrefix(got, other) {
				t.Errorf("a later piece of %.20q begins as %.40q", in, got)
			}
		}
	}
}

func TestACutIsAtTheLastParagraphThatFits(t *testing.T) {
	in := strings.Repeat("x", 200) + "\n\n" + strings.Repeat("y ", 60) + "\n\n" + strings.Repeat("z", 30)
	all := pieces(t, Parse(in), 330)
	if len(all) != 2 || marked(all[1]) != strings.Repeat("z", 30) {
		t.Errorf("%d pieces, the second is %q", len(all), marked(all[1]))
	}
	list := strings.Repeat("- "+strings.Repeat("w", 99)+"\n", 6)
	for _, p := range pieces(t, Parse(list), 310) {
		if text := marked(p); !strings.HasPrefix(text, "• w") || strings.Count(text, "•") != 3 {
			t.Errorf("a piece of the list is %q", text)
		}
	}
}

// letters are the letters and digits of spans.
func letters(all ...[]Span) string {
	var b strings.Builder
	for _, spans := range all {
		for _, s := range spans {
			b.WriteString(s.Text)
		}
	}
	return only(b.String())
}

func only(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// FuzzPieces cuts any text: nothing is lost, doubled or too large.
func FuzzPieces(f *testing.F) {
	for _, s := range []string{
		"# a\n\n> - b\n>   1. c\n\n***", "a | b\n-|-:\n1 | 2 | 3\n`\\|`", "[a](<b c> 'd') ![](e) [f]\n\n[f]: /g",
		"```x\ny\n```\n\n    z", "***a** b* ~~c~~ `` ` ``", "- [x] a\n\n  b\n- c", "a\\\nb  \nc", "|\n|-\n|||",
		strings.Repeat("a long text. ", 50), strings.Repeat("`a` **b**\n", 50), "- - - - - - - x\n",
		"a|b|c\n-|-|-\n" + strings.Repeat("words that are many|1|2\n", 30), "日本語「です」。\n👩\u200d🚀e\u0301",
	} {
		f.Add(s, uint8(0))
	}
	f.Fuzz(func(t *testing.T, s string, more uint8) {
		s = strings.ToValidUTF8(s[:min(len(s), 8000)], "?")
		d := Parse(s)
		whole, _ := d.Piece(0, 1<<30, utf8.RuneCountInString)
		all := pieces(t, d, 256+int(more))
		if got, want := letters(all...), letters(whole); got != want {
			t.Fatalf("the pieces have\n%q and not\n%q", got, want)
		}
		if plain := pieces(t, Plain(s), 256); letters(plain...) != only(s) {
			t.Fatalf("the plain pieces of %q have %q", s, letters(plain...))
		}
	})
}

func TestATextThatIsTooLongToReadIsShownAsItIs(t *testing.T) {
	in := strings.Repeat("**a** ", MaxText/6+1)
	if spans, _ := Parse(in).Piece(0, 300, utf8.RuneCountInString); !strings.HasPrefix(marked(spans), "**a** **a**") {
		t.Errorf("it begins as %.40q", marked(spans))
	}
}
