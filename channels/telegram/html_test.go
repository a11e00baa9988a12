package telegram

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

func TestMarkdownBecomesThePlatformsHTML(t *testing.T) {
	for in, want := range map[string]string{
		"a < b && c > \"d\"":            "a &lt; b &amp;&amp; c &gt; &#34;d&#34;",
		"**a *b* c** ~~d~~ `e<f`":       "<b>a <i>b</i> c</b> <s>d</s> <code>e&lt;f</code>",
		"***a** b*":                     "<b><i>a</i></b><i> b</i>",
		"# Title\n\n- a\n- **b**":       "<b>Title</b>\n\n• a\n• <b>b</b>",
		"```go\nx := \"<\"\n```":        `<pre><code class="language-go">x := &#34;&lt;&#34;</code></pre>`,
		"    a\n\n    b":                "<pre>a\n\nb</pre>",
		"```\na\n```\n\n```\nb\n```":    "<pre>a</pre>\n\n<pre>b</pre>",
		"> a\n> **b**\n\nc\n\n> d":      "<blockquote>a\n<b>b</b></blockquote>\n\nc\n\n<blockquote>d</blockquote>",
		"> a\n>\n>     b\n>\n> c":       "<blockquote>a\n\n<pre>b</pre>\n\nc</blockquote>",
		"[a **b**](https://c.org/?d&e)": `<a href="https://c.org/?d&amp;e">a <b>b</b></a>`,
		"**[a](http://b.org)c**":        `<a href="http://b.org"><b>a</b></a><b>c</b>`,
		"[`a`](http://b.org)":           `<a href="http://b.org">a</a>`,
		"**`a`**":                       "<code>a</code>",
		"<b>x</b> &lt;":                 "&lt;b&gt;x&lt;/b&gt; &amp;lt;",
		"[a](javascript:alert(1))":      "a (javascript:alert(1))",
		"[a](tg://user?id=1)":           "a (tg://user?id=1)",
	} {
		spans, _ := markup.Parse(in).Piece(0, maxUnits, units)
		got := looks.Write(spans)
		if got != want {
			t.Errorf("%q became\n%s\nand not\n%s", in, got, want)
		}
		if _, _, wrong := telegramtest.Parse(got); wrong != "" {
			t.Errorf("%q: the platform refuses %s: %s", in, got, wrong)
		}
	}
}

func TestPlainTextShowsTheAddressesOfItsLinks(t *testing.T) {
	spans, _ := markup.Parse("see [a **b**](http://c.org), [d](http://e.org)").Piece(0, maxUnits, units)
	if got := markup.Text(spans); got != "see a b (http://c.org), d (http://e.org)" {
		t.Errorf("got %q", got)
	}
}

// FuzzHTML has the platform read what becomes of any answer: it takes each piece, shows its very text, and no piece is
// too long.
func FuzzHTML(f *testing.F) {
	for _, s := range []string{
		"# a\n\n> - b\n>   1. c\n\n***", "a | b\n-|-:\n1 | 2 | 3\n`\\|`", "[a](http://b.org 'd') ![](e) [f]\n\n[f]: /g",
		"```x\"y\nz\n```\n\n    z", "***a** b* ~~c~~ `` ` ``", "**a [`b` *c*](http://d.e) f**", "😀 &#0; <pre>",
		strings.Repeat("> **a long text** with [links](http://x.y) 😀.\n", 200),
		"```html\n" + strings.Repeat("<b>&amp;</b>\n", 600) + "```",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		d := markup.Parse(s)
		for from, to := 0, 0; from < len(s); from = to {
			var spans []markup.Span
			spans, to = d.Piece(from, maxUnits, units)
			var want strings.Builder
			for _, span := range spans {
				want.WriteString(span.Text)
			}
			text, _, wrong := telegramtest.Parse(looks.Write(spans))
			if wrong != "" || text != strings.ReplaceAll(want.String(), "\x00", "\ufffd") || units(text) > maxUnits {
				t.Fatalf("%q: %s; %d units\n%q and not\n%q", s, wrong, units(text), text, want.String())
			}
		}
	})
}

func TestTheLengthOfATextIsInUTF16Units(t *testing.T) {
	for text, want := range map[string]int{"": 0, "aé中": 3, "😀": 2, "\xff": 1} {
		if got := units(text); got != want {
			t.Errorf("%q has %d units", text, got)
		}
	}
	in := strings.Repeat("😀", 3000)
	spans, to := markup.Parse(in).Piece(0, maxUnits, units)
	if fmt.Sprint(units(spans[0].Text), to) != "4096 8192" {
		t.Errorf("the first piece has %d units and ends at %d", units(spans[0].Text), to)
	}
}
