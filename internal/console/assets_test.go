package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"strings"
	"testing"
)

// vendored are the files of others, as their releases on npm have them: htmx.org 2.0.11, htmx-ext-sse 2.2.4, uplot
// 1.6.32. Each has its licence beside it.
var vendored = map[string]string{
	"htmx.LICENSE":  "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	"htmx.min.js":   "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
	"sse.LICENSE":   "a17d224ce9afdc21ec9491b76a2f5d036d19aa641ac4f85ca29c21f9f7e54fdf",
	"sse.min.js":    "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
	"uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	"uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	"uplot.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}

func TestTheFilesOfOthersAreThoseOfTheirReleases(t *testing.T) {
	all, err := fs.ReadDir(files, "static/vendor")
	if err != nil || len(all) != len(vendored) {
		t.Fatalf("%d files are vendored, want %d: %v", len(all), len(vendored), err)
	}
	for _, f := range all {
		text, err := fs.ReadFile(files, "static/vendor/"+f.Name())
		if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != vendored[f.Name()] {
			t.Errorf("%s has the hash %x: %v", f.Name(), sum, err)
		}
	}
}

func TestAFirstPageIsSmall(t *testing.T) {
	total := 0
	for _, name := range []string{
		"console.css", "console.js", "icon.svg", "vendor/htmx.min.js", "vendor/sse.min.js",
	} {
		r, err := resourceOf(name)
		if err != nil {
			t.Fatal(err)
		}
		total += len(r.plain)
	}
	if total > 85_000 { // the page itself has some thousands
		t.Errorf("the files of a first page have %d bytes", total)
	}
}

// Texts of chats, tools and names reach pages as Markdown. None of them becomes markup.
func FuzzMarkdownMakesNoMarkupButItsOwn(f *testing.F) {
	for _, text := range []string{
		"<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](https://evil.example/\" onerror=\"x)", "`<b>`",
		"a | b\n--|--\n<i> | [y](http://h/\"><script>)", "<http://a.b/<script>>", "> <b>\n\n1. <i>\n- [ ] <u>",
		"[x](https://h/'onload='x')", "&lt;script&gt;", "```<script>\n</code><script>\n```", "[a]: http://h/\"x\n[a]",
	} {
		f.Add(text)
	}
	known := "p em strong del code pre a br hr ul ol li blockquote h4 div table tr td th"
	f.Fuzz(func(t *testing.T, text string) {
		out := string(rendered(text))
		for rest := out; ; {
			_, after, found := strings.Cut(rest, "<")
			if !found {
				return
			}
			tag, _, closed := strings.Cut(after, ">")
			name, attrs, _ := strings.Cut(strings.TrimPrefix(tag, "/"), " ")
			if !closed || !strings.Contains(" "+known+" ", " "+name+" ") {
				t.Fatalf("%q has the element %q: %s", text, name, out)
			}
			if name == "a" && !strings.HasPrefix(tag, "/") && (strings.Count(attrs, `"`) != 6 ||
				!strings.Contains(attrs, `href="http`)) {
				t.Fatalf("%q has the link %q", text, attrs)
			}
			rest = after
		}
	})
}
