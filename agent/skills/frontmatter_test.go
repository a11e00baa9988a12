package skills_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
)

// page is a SKILL.md with these lines of front matter.
func page(lines ...string) string {
	return "---\n" + strings.Join(lines, "\n") + "\n---\n\n# How\n"
}

func TestASkillIsReadAsItsAuthorsWriteIt(t *testing.T) {
	plain := skills.FrontMatter{Name: "tea", Description: "Makes tea. Use it when somebody is cold."}
	for name, c := range map[string]struct {
		file string
		want skills.FrontMatter
	}{
		"all of our keys": {
			page("name: tea", `description: "Makes tea. Use it when somebody is cold."`, "always: true", "requires:",
				`  - env: ["KETTLE_KEY"]`, "  - tools: [web.search, mcp__kettle__boil]", "tools:", "- web.search",
				"- web.fetch"),
			skills.FrontMatter{
				Name: plain.Name, Description: plain.Description, Always: true,
				Tools:    []string{"web.search", "web.fetch"},
				Requires: skills.Needs{Env: []string{"KETTLE_KEY"}, Tools: []string{"web.search", "mcp__kettle__boil"}},
			},
		},
		"of another program": {
			page("name: tea", "description: Makes tea. Use it when somebody is cold.", "license: Apache-2.0",
				"compatibility: needs a kettle", "metadata:", "  author: me", `  version: "1.0"`,
				"  deep: {a: [1, {b: c}]}", "allowed-tools: Bash(git:*) Read"),
			plain,
		},
		"folded": {page("name: tea", "description: >-", "  Makes tea.", "  Use it when",
			"  somebody is cold."), plain},
		"a block": {page("name: tea", "description: |", "  Makes tea.", "",
			"  Use it when somebody is cold."), plain},
		"several lines": {page("name: tea", "description: Makes tea.", "  Use it when somebody",
			"  is cold."), plain},
		"quoted": {page("name: 'tea'",
			`description: "Makes tea.\n\tUse it when \u0073omebody is cold."`), plain},
		"in braces": {page(
			`{"name": "tea", "description": "Makes tea. Use it when somebody is cold."}`), plain},
		"comments": {page("# a skill", "name: tea # short", "",
			"description: Makes tea. Use it when somebody is cold."), plain},
		"empty keys": {page("name: tea", "description: Makes tea. Use it when somebody is cold.",
			"always:", "requires:", "tools:"), plain},
		"CRLF": {strings.ReplaceAll(page("name: tea", "description: Makes tea.",
			"  Use it when somebody is cold."), "\n", "\r\n"), plain},
		"byte order mark": {"\uFEFF" + page("name: tea",
			"description: Makes tea. Use it when somebody is cold."), plain},
		"fences that go on in blanks": {
			"--- \t\nname: tea\ndescription: Makes tea. Use it when somebody is cold.\n---  \n\n# How\n", plain,
		},
		"hidden characters": {page("name: tea",
			"description: Makes\u200b tea. Use\u202e it when somebody\U000E0041 is cold."), plain},
		"needs in several entries": {
			page("name: tea", "description: Makes tea. Use it when somebody is cold.", "requires:", "- env: [A]",
				"  tools: [web.fetch]", "- env: [B, A]"),
			skills.FrontMatter{
				Name: "tea", Description: plain.Description,
				Requires: skills.Needs{Env: []string{"A", "B"}, Tools: []string{"web.fetch"}},
			},
		},
		"as many characters as there may be": {
			page("name: tea", "description: "+strings.Repeat("é", 1024)),
			skills.FrontMatter{Name: "tea", Description: strings.Repeat("é", 1024)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, page, err := skills.Parse([]byte(c.file))
			if err != nil || !reflect.DeepEqual(got, c.want) || page != "# How\n" {
				t.Errorf("got  %+v with %q, %v\nwant %+v", got, page, err, c.want)
			}
			if again, page, err := skills.Parse([]byte(got.String())); err != nil || !reflect.DeepEqual(again, got) ||
				page != "" {
				t.Errorf("printed as\n%s\nit is read as %+v with %q, %v", got, again, page, err)
			}
		})
	}
}

func TestWhatIsBehindTheFrontMatterIsThePage(t *testing.T) {
	for file, want := range map[string]string{
		"---\nname: a\ndescription: b\n---":                          "",
		"---\nname: a\ndescription: b\n---\n\n\n# A\n---\nb\n":       "# A\n---\nb\n",
		"---\nname: a\ndescription: b\n---\n  indented\u200b\x1b[2J": "  indented[2J",
		"---\r\nname: a\r\ndescription: b\r\n---\r\nx\r\ny\r\n":      "x\ny\n",
	} {
		if _, got, err := skills.Parse([]byte(file)); err != nil || got != want {
			t.Errorf("%q has the page %q, %v; want %q", file, got, err, want)
		}
	}
}

// required is an entry of requires with thirty variables.
func required(prefix string) string {
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return "  - env: [" + strings.Join(all, ", ") + "]"
}

func TestWhatIsWrongWithASkillIsSaidWithTheLineAndAHint(t *testing.T) {
	const name, description = "name: tea", "description: Makes tea."
	for what, c := range map[string]struct{ file, want, hint string }{
		"nothing":             {"", "does not begin with front matter", "the first line is ---"},
		"no front matter":     {"# Tea\n", "does not begin with front matter", "the first line is ---"},
		"no closing line":     {"---\nname: tea\n", "does not end", "a line of --- ends it"},
		"no end at all":       {"---", "does not end", "a line of --- ends it"},
		"not UTF-8":           {page(name, "description: caf\xe9"), "not UTF-8", "save it as UTF-8"},
		"a NUL":               {page(name, description) + "\x00", "NUL", ""},
		"empty":               {page(), "is empty", ""},
		"several documents":   {page(name, "...", description), "several documents", ""},
		"a list":              {page("- name: tea"), "not a list of keys", ""},
		"a text":              {page("tea"), "not a list of keys", ""},
		"no name":             {page(description), "no name", "the directory"},
		"no description":      {page(name), "no description", "when to use it"},
		"a blank description": {page(name, `description: " \u200b\n"`), "no description", "when to use it"},
		"an odd name":         {page("name: Tea Time", description), `the name "Tea Time"`, "a-z, 0-9 and -"},
		"a name that climbs":  {page("name: ../tea", description), `the name "../tea"`, "a-z, 0-9 and -"},
		"a long name":         {page("name: "+strings.Repeat("a", 65), description), "the name", "1 to 64"},
		"a long description": {
			page(name, "description: "+strings.Repeat("é", 1025)),
			"1025 characters, the limit is 1024", "behind the front matter",
		},
		"a number": {page("name: 7", description), "line 2: invalid: name is not a text", "in quotes"},
		"a list for a text": {
			page(name, "description: [a, b]"), "line 3: invalid: description is not a text",
			"in quotes",
		},
		"a bare colon":         {page(name, "description: Use it so: with care"), "line 3: ", "in quotes"},
		"a quote that is open": {page(name, `description: "Makes tea`), "line 3: ", "in quotes"},
		"a text for a bool": {
			page(name, description, `always: "true"`), "line 4: invalid: always is neither",
			"without quotes",
		},
		"yes": {
			page(name, description, `always: yes`), "line 4: invalid: always is neither",
			"true or false",
		},
		"a text for a list": {
			page(name, description, `tools: web.search, web.fetch`),
			"line 4: invalid: tools is not a list", "[one, other]",
		},
		"a tool of no name": {
			page(name, description, `tools: ["web search"]`), `"web search", an entry of tools`,
			"",
		},
		"a tool that is a list": {page(name, description, `tools: [[a]]`), "an entry of tools is not a text", ""},
		"many tools": {
			page(name, description, "tools: ["+strings.Repeat("a, ", 65)+"a]"),
			"tools has 66 entries", "",
		},
		"a mapping of needs": {
			page(name, description, "requires: {env: [A]}"), "requires is not a list",
			"- env: [NAME]",
		},
		"a need of another kind": {
			page(name, description, "requires:", "  - bins: [jq]"),
			`the key "bins" is not known`, "- env: [NAME]",
		},
		"a need that is a text": {page(name, description, "requires: [A]"), "an entry of requires", "- env: [NAME]"},
		"a variable of no name": {
			page(name, description, "requires:", "  - env: [A=B]"), `"A=B", an entry of env`,
			"- env: [NAME]",
		},
		"many needs": {
			page(name, description, "requires:", required("A"), required("B"), required("C")),
			"more than 64 things", "",
		},
		"a misspelt key": {
			page(name, description, "allways: true"), `the key "allways" is not known`,
			"did you mean always?",
		},
		"a letter too few": {
			page(name, description, "require: [A]"), `the key "require" is not known`,
			"did you mean requires?",
		},
		"another letter":        {page(name, "descriptian: x"), `the key "descriptian"`, "did you mean description?"},
		"upper case":            {page(name, description, "Tools: [a]"), `the key "Tools"`, "did you mean tools?"},
		"a key twice":           {page(name, description, "name: coffee"), "line 4: ", ""},
		"a key twice in braces": {page(`{name: tea, description: x, name: coffee}`), "line 2: ", ""},
		"a key twice, quoted":   {page(name, description, `"name": coffee`), "line 4: ", ""},
		"a foreign key twice":   {page(name, description, "license: a", "license: b"), "line 5: ", ""},
		"an anchor": {
			page(name, "description: &a Makes tea."), "line 3: ",
			"put a text that begins with &",
		},
		"an alias": {
			page(name, description, "metadata: *a"), "line 4: ",
			"put a text that begins with &",
		},
		"a merge": {page(name, description, "<<: {always: true}"), "line 4: ", "write it out"},
		"a tag": {
			page(name, "description: !!binary aGVsbG8="), "line 3: ",
			"put a text that begins with &",
		},
		"a directive": {page("%YAML 1.2", name, description), "line 2: ", "put a text that begins with &"},
	} {
		t.Run(what, func(t *testing.T) {
			m, page, err := skills.Parse([]byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(corebot.HintOf(err), c.hint) {
				t.Errorf("got %v (%s), want %q (%s)", err, corebot.HintOf(err), c.want, c.hint)
			}
			if !reflect.DeepEqual(m, skills.FrontMatter{}) || page != "" {
				t.Errorf("it gives %+v and %q all the same", m, page)
			}
		})
	}
}

func TestAKeyThatIsOnlyLikeOneOfOursIsOfAnotherProgram(t *testing.T) {
	for _, key := range []string{
		"allowed-tools", "license", "names-of", "metadata", "tags", "aways-on",
		"user-invocable", "model",
	} {
		if _, _, err := skills.Parse([]byte(page("name: tea", "description: Makes tea.", key+": x"))); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}
