package markdown

import (
	"strings"
	"testing"
)

// tokens shows the styles of code: each piece with a letter for the color that it has beside that of code.
func tokens(t *testing.T, name, text string) string {
	t.Helper()
	out, ok := New(Options{}).Render("```"+name+"\n"+text+"\n```", 80)
	if !ok {
		t.Fatal("it was not laid out")
	}
	out = strings.NewReplacer("\x1b[33;2m", "<c ", "\x1b[33;32m", "<s ", "\x1b[33;36m", "<n ", "\x1b[33;35m", "<k ",
		"\x1b[33;31m", "<- ", "\x1b[1;33m", "<b ", "\x1b[33m", "<", "\x1b[m", ">").Replace(out)
	return strings.TrimSuffix(out, "\n")
}

func TestCodeOfAKnownLanguageHasColors(t *testing.T) {
	for _, c := range []struct{ language, text, want string }{
		{"go", `if x := "a\"b"; x // so`, `  <k if>< x := ><s "a\"b">< ; x ><c // so>`},
		{"Go", "x = `one\ntwo` + 0x1F", "  <x = ><s `one>\n  <s two`>< + ><n 0x1F>"},
		{"c", "a /* one\nif */ b", "  <a ><c /* one>\n  <c if */>< b>"},
		{"go", "iffy if_ größe", "  <iffy if_ größe>"},
		{"go", `s = "open`, `  <s = ><s "open>`},
		{"python", "'''a\n'b' if\n''' # c", "  <s '''a>\n  <s 'b' if>\n  <s '''>< ><c # c>"},
		{"sh", `echo "$#" $# # so`, `  <echo ><s "$#">< $# ><c # so>`},
		{"sql", "SELECT a FROM t -- x", "  <k SELECT>< a ><k FROM>< t ><c -- x>"},
		{"json", `{"a": [1.5, true]}`, `  <{><s "a"><: [><n 1.5><, ><k true><]}>`},
		{"rust", "fn f<'a>() {}", "  <k fn>< f<'a>() {}>"},
		{
			"diff", "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same",
			"  <b --- a>\n  <b +++ b>\n  <n @@ -1 +1 @@>\n  <- -old>\n  <s +new>\n  < same>",
		},
		{"unheard-of", `if "x" // 1`, `  <if "x" // 1>`},
		{"", `if "x" // 1`, `  <if "x" // 1>`},
	} {
		c.want = strings.ReplaceAll(c.want, "< ;", "<;")
		if got := tokens(t, c.language, c.text); got != c.want {
			t.Errorf("%s %q is drawn\n%s\nwant\n%s", c.language, c.text, got, c.want)
		}
	}
}

func TestCodeHasNoColorsWhereThereAreNone(t *testing.T) {
	out, _ := New(Options{NoColor: true}).Render("```go\nif x { return 1 } // \"so\"\n```", 40)
	if out != "  if x { return 1 } // \"so\"\n" {
		t.Errorf("it is drawn %q", out)
	}
}

// FuzzCode looks for code whose colors change more than the color.
func FuzzCode(f *testing.F) {
	f.Add("if x /* \"a", uint8(0))
	f.Add("\"\"\"a\n\\'\xff", uint8(1))
	f.Add("--- a\n+b\n@@", uint8(200))
	f.Fuzz(func(t *testing.T, s string, which uint8) {
		s = strings.NewReplacer("`", "'", "~", "-", "\x00", "").Replace(harmless(s[:min(len(s), 4000)]))
		name := "diff"
		if int(which) < len(syntaxes) {
			name, _, _ = strings.Cut(syntaxes[which].names, " ")
		}
		colored, _ := New(Options{}).Render("```"+name+"\n"+s+"\n```", 60)
		plain, _ := New(Options{NoColor: true}).Render("```x\n"+s+"\n```", 60)
		if bare := sgr.ReplaceAllString(colored, ""); bare != plain {
			t.Fatalf("%q in %s is drawn %q, want %q", s, name, bare, plain)
		}
		if most := 20*len(s) + 100; len(colored) > most {
			t.Fatalf("%d bytes are drawn as %d", len(s), len(colored))
		}
	})
}
