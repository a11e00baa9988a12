package webpage_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/corebot/corebot/internal/webpage"
)

func address(t testing.TB) *url.URL {
	u, err := url.Parse("https://example.com/dir/page.html")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func convert(t *testing.T, body string) webpage.Page {
	t.Helper()
	p, err := webpage.Markdown(t.Context(), []byte(body), "text/html; charset=utf-8", address(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const sentence = "Bees are winged insects, closely related to wasps and ants, known for their role in pollination, " +
	"and in the case of some for honey. "

func TestTheMainContentOfAPageIsFound(t *testing.T) {
	p := convert(t, `<!doctype html><html lang=en><head><title>Bees &amp; wasps
		| Example</title><style>p{color:red}</style><script>document.write("script")</script></head>
		<body><nav><ul><li><a href="/">menu entry</a></ul></nav><div id=content class=article><h1>Bees</h1>
		<p>`+strings.Repeat(sentence, 4)+`<p>See <a href="more.html#x">more</a> and
<a href="//other.example/y?z=1">others</a>.
		<p>`+strings.Repeat(sentence, 4)+`<ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2</table></div>
		<div class=sidebar><a href=/ad>advertisement</a></div><footer>imprint</footer></body></html>`)
	if p.Title != "Bees & wasps | Example" || p.Whole || p.Cut {
		t.Errorf("title %q, whole %v, cut %v", p.Title, p.Whole, p.Cut)
	}
	for _, want := range []string{
		sentence[:40], "[more](https://example.com/dir/more.html#x)",
		"[others](https://other.example/y?z=1)", "- one\n- two", "|1|2|",
	} {
		if !strings.Contains(p.Markdown, want) {
			t.Errorf("%q is missing in\n%s", want, p.Markdown)
		}
	}
	for _, chaff := range []string{"menu entry", "imprint", "script", "color:red", "advertisement"} {
		if strings.Contains(p.Markdown, chaff) {
			t.Errorf("%q is in\n%s", chaff, p.Markdown)
		}
	}
}

func TestAPageWithoutMainContentIsShownWhole(t *testing.T) {
	var list strings.Builder
	for range 60 {
		list.WriteString(`<td><a href="x">entry</a></td>`)
	}
	p := convert(t, "<title>Index</title><table><tr>"+list.String()+"</tr></table>")
	if strings.Count(p.Markdown, "[entry](https://example.com/dir/x)") != 60 || p.Title != "Index" {
		t.Errorf("%+v", p)
	}
	if p := convert(t, ""); p.Markdown != "" || p.Title != "" {
		t.Errorf("of nothing: %+v", p)
	}
}

func TestWhatABrowserWouldNotShowIsNotShown(t *testing.T) {
	for _, in := range []string{
		`<script>HIDDEN</script>`, `<style>HIDDEN</style>`, `<noscript>HIDDEN</noscript>`,
		`<template>HIDDEN</template>`, `<!-- HIDDEN -->`, `<p hidden>HIDDEN</p>`,
		`<div hidden><p>x<div>HIDDEN</div></div>`,
		`<p style="display:none">HIDDEN</p>`, `<p style="color:red; DISPLAY : None !important">HIDDEN</p>`,
		`<p style="visibility:hidden">HIDDEN</p>`, `<p style="opacity:0.0">HIDDEN</p>`,
		`<p style="font-size:0px">HIDDEN</p>`, `<svg><text>HIDDEN</text></svg>`, `<iframe>HIDDEN</iframe>`,
		`<object>HIDDEN</object>`, `<select><option>HIDDEN</select>`, `<textarea>HIDDEN</textarea>`,
		`<button>HIDDEN</button>`, `<input value=HIDDEN>`, `<a href="javascript:HIDDEN">x</a>`,
		`<a href="data:text/html,HIDDEN">x</a>`, `<img src="data:image/png;base64,HIDDEN">`,
		`<p hidden="">HIDDEN<b>HIDDEN</b></p>`,
		`<ul><li hidden>HIDDEN<li>x</ul>`, `<?php HIDDEN ?>`, `<![CDATA[HIDDEN]]>`, `<math><mi>HIDDEN</mi></math>`,
		`<video>HIDDEN</video>`, `<head><title>x</title><meta name=x content=HIDDEN></head>`,
	} {
		p := convert(t, "<p>visible</p>"+in+"<p>after</p>")
		if strings.Contains(p.Markdown+p.Title, "HIDDEN") || !strings.Contains(p.Markdown, "visible") ||
			!strings.Contains(p.Markdown, "after") {
			t.Errorf("%s gives %q, %q", in, p.Title, p.Markdown)
		}
	}
	for _, in := range []string{
		`<p style="display:block">SHOWN</p>`, `<p style="opacity:0.5">SHOWN</p>`,
		`<p style="font-size:10px">SHOWN</p>`, `<p aria-hidden=true>SHOWN</p>`,
	} {
		if p := convert(t, in); !strings.Contains(p.Markdown, "SHOWN") {
			t.Errorf("%s gives %q", in, p.Markdown)
		}
	}
}

func TestMarkupThatIsLeftOpenIsUnderstood(t *testing.T) {
	for in, want := range map[string]string{
		"<p>a<p>b":                                     "a\n\nb",
		"<ul><li>a<ul><li>b</ul><li>c</ul>d":           "- a\n  \n  - b\n- c\n\nd",
		"<b>bold<p>text</b> more</p>":                  "**bold**\n\n**text more**",
		"a</div></p></b>b":                             "ab",
		"<table><tr><td>a<td>b<tr><td>c</td></table>d": "|||\n|---|---|\n|a|b|\n|c||\n\nd",
		"<pre>a\n  b &lt; c</pre>":                     "```\na\n  b < c\n```",
		"<base href=/other/><a href=x>l</a>":           "[l](https://example.com/other/x)",
		"<base href=javascript:x><a href=x>l</a>":      "[l](https://example.com/dir/x)",
		"<a href=#here>l</a> <a href=mailto:a@b>m</a>": "l [m](mailto:a@b)",
		"<a href=x>one <a href=y>two</a>": "[one](https://example.com/dir/x) " +
			"[two](https://example.com/dir/y)",
		"snake_case *stars* [brackets]":                "snake_case *stars* [brackets]",
		"<dl><dt>a<dd>b<dt>c<dd>d</dl>":                "a\n\nb\n\nc\n\nd",
		"<table><td><table><td>in</table>out</table>x": "in\n\nout\n\nx",
	} {
		if got := convert(t, in).Markdown; got != want {
			t.Errorf("%s\ngives %q\nwant  %q", in, got, want)
		}
	}
}

func TestAPageIsReadInItsCharset(t *testing.T) {
	const russian, japaneseText = "Съешь же ещё этих мягких французских булок", "いろはにほへとちりぬるを"
	encode := func(e encoding.Encoding, text string) string {
		out, err := e.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	for name, c := range map[string]struct{ body, header, want string }{
		"windows-1251 in the header": {
			encode(charmap.Windows1251, "<p>"+russian), "text/html; charset=windows-1251",
			russian,
		},
		"windows-1251 in the document": {
			encode(charmap.Windows1251, "<meta charset=windows-1251><p>"+russian),
			"text/html", russian,
		},
		"shift_jis in the header": {
			encode(japanese.ShiftJIS, "<p>"+japaneseText), "text/html; charset=Shift_JIS",
			japaneseText,
		},
		"shift_jis in the document": {
			encode(japanese.ShiftJIS,
				`<meta http-equiv="Content-Type" content="text/html; charset=shift_jis"><p>`+japaneseText), "text/html",
			japaneseText,
		},
		"utf-16 by its mark": {encode(utf16, "<p>"+russian), "text/html", russian},
		"utf-16 in the header": {
			encode(unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), "<p>"+russian),
			"text/html; charset=utf-16be", russian,
		},
		"an XML declaration": {encode(charmap.Windows1251,
			`<?xml version="1.0" encoding="windows-1251"?><p>`+russian), "application/xhtml+xml", russian},
		"utf-8 by its look":   {"<p>" + strings.Repeat(" ", 2000) + russian, "text/html", russian},
		"utf-8 with a mark":   {"\uFEFF<p>" + russian, "", russian},
		"latin-1 by its look": {"<p>caf\xe9", "text/html", "café"},
		"a charset of nobody": {"<p>" + russian, "text/html; charset=nonsense", russian},
		"broken utf-8":        {"<p>a\xffb", "text/html; charset=utf-8", "a\uFFFDb"},
	} {
		p, err := webpage.Markdown(t.Context(), []byte(c.body), c.header, address(t))
		if err != nil || p.Markdown != c.want {
			t.Errorf("%s: %q, %v; want %q", name, p.Markdown, err, c.want)
		}
	}
	if got := webpage.Decode([]byte("a\xd0"), "text/plain"); !utf8.ValidString(got) {
		t.Errorf("text that was cut: %q", got)
	}
}

// hostile pages are as long as the limits of the tree, or short, and ask for much more.
func hostile() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, (30<<10)/len(s)) }
	return map[string]string{
		"100,000 divs": strings.Repeat("<div>", 100_000) + "deep" + strings.Repeat("</div>", 100_000) +
			"<p>after",
		"divs":                 fill("<div>x"),
		"formatting left open": strings.Repeat("<b a=1><i><font x>", 400) + fill("<p>x"),
		"formatting in select": strings.Repeat("<b><select></b></select>", 400) + fill("<p>x"),
		"quotations":           strings.Repeat("<blockquote>", 500) + "<pre>" + fill("x\n"), "lists": fill("<ul><li>x"),
		"end tags": strings.Repeat("<div>", 90) + fill("</a>"),
		"tables":   fill("<table><tr><td>x"), "a wide and long table": "<table><tr>" +
			strings.Repeat("<td>x", 2_000) + fill("<tr><td>x"), "spans of cells": "<table>" +
			strings.Repeat("<tr><td colspan=1000 rowspan=1000>x", 1000),
		"a long cell": "<table><tr><td>" + strings.Repeat("x", 100_000) + fill("<tr><td>x"), "brackets": fill("["),
		"stars": fill("*"), "less-than": fill("<"), "ampersands": fill("&"), "backticks": "<pre>" + fill("`"),
		"attributes": "<div " + fill("a=1 ") + ">x",
		"classes":    fill(`<p class="article content main text body">x, y, z`), "links": fill(`<a href="x">y</a> `),
		"comments": fill("<!-- x -->"), "a comment": "<!--" + fill("-"),
		"bodies": fill("<body a=1>"), "titles": fill("<title>x</title>"), "a title": "<title>" + fill("a | b - "),
		"breaks": fill("<br>"), "images": fill("<img src=x alt=y>"), "nul": fill("\x00"), "a tag": "<" + fill("x"),
		"script": "<script>" + fill("x"), "paragraphs in depth": strings.Repeat("<div>",
			90) + fill("<p>some text, with commas, and more, "), "plaintext": "<plaintext>" + fill("x"),
	}
}

func TestAHostilePageEndsSoonWithBoundedText(t *testing.T) {
	for name, body := range hostile() {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			p, err := webpage.Markdown(ctx, []byte(body), "text/html", address(t))
			if err != nil || len(p.Markdown) > 8<<20 || !utf8.ValidString(p.Markdown) {
				t.Errorf("%d bytes, %v", len(p.Markdown), err)
			}
			if name == "100,000 divs" && (!strings.Contains(p.Markdown, "deep") ||
				!strings.Contains(p.Markdown, "after")) {
				t.Errorf("text is missing: %.100q", p.Markdown)
			}
		})
	}
}

func TestTheEndOfTheContextEndsTheConversion(t *testing.T) {
	// takes the libraries a second
	slow := []byte(strings.Repeat("<div>", 90) + strings.Repeat("<p>some text, with commas, and more, ", 20_000))
	for _, after := range []time.Duration{0, 250 * time.Millisecond} {
		cause := errors.New("no more time")
		ctx, stop := context.WithTimeoutCause(t.Context(), after, cause)
		if _, err := webpage.Markdown(ctx, slow, "text/html", address(t)); !errors.Is(err, cause) {
			t.Errorf("after %v: %v", after, err)
		}
		stop()
	}
}

func TestMoreThanTheLimitsIsLeftOutAndSaid(t *testing.T) {
	if p := convert(t, strings.Repeat("<p>word word word", 25_000)); !p.Cut || !strings.Contains(p.Markdown, "word") {
		t.Errorf("many nodes: cut %v", p.Cut)
	}
	if p := convert(t, "<p>"+strings.Repeat("ü", 700_000)); !p.Cut || !utf8.ValidString(p.Markdown) {
		t.Errorf("much text: cut %v", p.Cut)
	}
	if p := convert(t, "<table><tr>"+strings.Repeat("<td>x", 200)); !p.Cut {
		t.Error("a wide row is not said to be cut")
	}
	if p := convert(t, "<title>"+strings.Repeat("ü ", 5000)+"</title>"); len(p.Title) > 310 ||
		!utf8.ValidString(p.Title) {
		t.Errorf("the title has %d bytes", len(p.Title))
	}
}

func TestDeepQuotationsAreWrittenFlat(t *testing.T) {
	p := convert(t, strings.Repeat("<blockquote>", 50)+"deep"+strings.Repeat("</blockquote>", 50)+"<p>after")
	if quotes := strings.Count(p.Markdown, ">"); quotes == 0 || quotes > 12 || !strings.Contains(p.Markdown, "deep") ||
		!strings.HasSuffix(p.Markdown, "\n\nafter") {
		t.Errorf("%d marks in %q", quotes, p.Markdown)
	}
}

func TestAFragmentBecomesALine(t *testing.T) {
	for in, want := range map[string]string{
		"a <b>c</b>\n d": "a c d", "x &amp; y &lt;z&gt;": "x & y <z>", "": "",
		"<": "<", "a<script>b</script>": "ab",
	} {
		if got := webpage.Plain(in); got != want {
			t.Errorf("%q gives %q", in, got)
		}
	}
}

func FuzzAnyPageIsConvertedOrRefused(f *testing.F) {
	for _, seed := range []string{
		"<p>a<p>b", "<table><tr><td>a<table><td>b", "<b><p></b>x</p>", "<ul><li><ol><li>x",
		"<base href=//x><a href=y>z</a>", "<a href=javascript:x>y", "<title>a | b</title><h1>a</h1>", "<style>x</styl",
		"<pre>`</pre>", "<svg><p>x", "<div hidden><p>x</div>y", "<?xml encoding='utf-16'?><p>x",
		"\xff\xfe<\x00p\x00>\x00", "<article><p>hello, world, this is text</article>", "<img src=' http://x '>",
		"<meta charset=shift_jis>\x82",
	} {
		f.Add(seed, "text/html")
	}
	f.Add("<p>x", "text/html; charset=utf-16")
	u := address(f)
	f.Fuzz(func(t *testing.T, body, header string) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second) // a page that takes longer is a find
		defer stop()
		p, err := webpage.Markdown(ctx, []byte(body), header, u)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(p.Markdown) || !utf8.ValidString(p.Title) || strings.ContainsAny(p.Title, "\n\r") {
			t.Fatalf("%q gives %+v", body, p)
		}
		if strings.Contains(strings.ToLower(p.Markdown), "](javascript:") &&
			!strings.Contains(strings.ToLower(webpage.Decode([]byte(body), header)), "](javascript:") &&
			!strings.Contains(body, "&") {
			t.Fatalf("%q has a link to a script: %q", body, p.Markdown)
		}
	})
}
