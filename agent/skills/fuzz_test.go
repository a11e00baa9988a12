package skills_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot/agent/skills"
)

// FuzzFrontMatter: reading a SKILL.md ends soon and without a panic, whatever the file holds. Accepted front matter is
// within the rules, and comes back the same when it is printed.
func FuzzFrontMatter(f *testing.F) {
	for _, seed := range []string{
		page("name: tea", "description: Makes tea.", "always: true", "requires:", "  - env: [A_B, C]",
			"  - tools: [web.search]", "tools: [web.fetch]"),
		page("name: tea", "description: >-", "  folded", "  text", "license: MIT", "metadata: {a: [b, {c: d}]}"),
		page("name: 'tea'", `description: "a\tb\u00e9\"c\\"`, "tools:", "- a", "- b.c"),
		page("name: tea", "description: |2", "   block", "", "  text # no comment"),
		page(`{"name": "tea", "description": "in braces", "always": false}`),
		page("? name", ": tea", "? description", ": x"),
		page("name: tea", "description: null", "<<: *a", "a: &a b", "x: !!set {a}"),
		page("name: tea", "description: 'it''s'", "# comment", "always: FALSE"),
		"\uFEFF---\r\nname: tea\r\ndescription: x\r\n---\r\nbody\r\n", "---\n---\n", "---", "",
		"---\nname: tea\n...\n---\n", "---\n\x00\n---\n", "---\n\xff\n---\n",
	} {
		f.Add([]byte(seed))
	}
	for _, bomb := range []string{
		"laughs", "an alias of itself", "brackets", "steps", "escapes", "a long folded text",
		"a block of nothing",
	} {
		f.Add([]byte("---\n" + bombs()[bomb] + "\n---\n"))
	}
	name := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	f.Fuzz(func(t *testing.T, file []byte) {
		begun := time.Now()
		m, body, err := skills.Parse(file)
		if took := time.Since(begun); took > 2*time.Second {
			t.Fatalf("it took %v", took)
		}
		if err != nil {
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 1000 {
				t.Fatalf("an error that nobody can read: %q", err)
			}
			return
		}
		if n := utf8.RuneCountInString(m.Description); !name.MatchString(m.Name) || n == 0 || n > 1024 ||
			strings.ContainsAny(m.Description, "\n\r\t\x00") || strings.TrimSpace(m.Description) != m.Description {
			t.Fatalf("accepted: name %q, description %q", m.Name, m.Description)
		}
		if !utf8.ValidString(body) || len(body) > len(file) || strings.ContainsRune(body, 0) {
			t.Fatalf("accepted: page %q", body)
		}
		again, _, err := skills.Parse([]byte(m.String()))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v is printed as\n%s\nand read as %+v, %v", m, m, again, err)
		}
	})
}
