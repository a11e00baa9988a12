package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/config"
)

// TestTheSkillAboutCorebotNamesWhatThereIs: the page that the agent answers from has every command, and no other.
func TestTheSkillAboutCorebotNamesWhatThereIs(t *testing.T) {
	data, err := os.ReadFile("../../workspace/templates/skills/corebot-help/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, err := skills.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, c := range newRoot().Commands() {
		if !c.Hidden && !slices.Contains([]string{"help", "completion"}, c.Name()) {
			commands = append(commands, c.Name())
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`corebot ([a-z]+)(?: ([a-z]+))?").FindAllStringSubmatch(page, -1) {
		named[m[1]] = true
		found, _, err := newRoot().Find(slices.DeleteFunc(m[1:], func(s string) bool { return s == "" }))
		if err != nil || m[2] != "" && found.HasParent() && found.Name() != m[2] {
			t.Errorf("%s is no command: %v", m[0], err)
		}
	}
	for _, name := range commands {
		if !named[name] {
			t.Errorf("the page does not name `corebot %s`", name)
		}
	}
	var slashes []string
	for _, c := range corebot.Commands() {
		slashes = append(slashes, c.Name)
		if !strings.Contains(page, "`"+c.Name) {
			t.Errorf("the page does not name %s", c.Name)
		}
	}
	for _, m := range regexp.MustCompile("`(/[a-z]+)").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(slashes, m[1]) {
			t.Errorf("%s is no command of a chat", m[1])
		}
	}
	wantSettings(t, page)
}

// wantSettings: the page names each group of settings, and no setting that there is not.
func wantSettings(t *testing.T, page string) {
	t.Helper()
	text, err := json.Marshal(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var all schema
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for group := range all.Properties {
		if !strings.Contains(page, "`"+group+"`") {
			t.Errorf("the page does not name the settings %s", group)
		}
	}
	settings := 0
	for _, m := range regexp.MustCompile("`([a-z]+(?:\\.[a-z_]+)+)(?:: [a-z]+)?`").FindAllStringSubmatch(page, -1) {
		if m[1] == "corebot.yaml" {
			continue
		}
		at, has := all, true
		for key := range strings.SplitSeq(m[1], ".") {
			if at, has = at.Properties[key]; !has {
				t.Errorf("%s is no setting", m[1])
				break
			}
		}
		settings++
	}
	if settings < 10 {
		t.Errorf("the page has %d settings", settings)
	}
}

// schema is the part of the settings' schema that says which there are.
type schema struct {
	Properties map[string]schema `json:"properties"`
}

// TestTheSkillAboutCorebotSaysWhatTheHelpSays: what `corebot --help` lists is what the page names, and each flag of the
// page is one of its command.
func TestTheSkillAboutCorebotSaysWhatTheHelpSays(t *testing.T) {
	data, err := os.ReadFile("../../workspace/templates/skills/corebot-help/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	root, out := newRoot(), new(strings.Builder)
	root.SetOut(out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`).FindAllStringSubmatch(out.String(), -1)
	if len(listed) < 20 {
		t.Fatalf("the help lists %d commands: %s", len(listed), out)
	}
	for _, m := range listed {
		if m[1] != "help" && m[1] != "completion" && !strings.Contains(string(data), "`corebot "+m[1]) {
			t.Errorf("the page does not name `corebot %s`, which the help lists", m[1])
		}
	}
	flags := regexp.MustCompile("`corebot ([a-z ]+) [^`]*--([a-z-]+)")
	for _, m := range flags.FindAllStringSubmatch(string(data), -1) {
		found, _, err := newRoot().Find(strings.Fields(m[1]))
		if err != nil || found.Flag(m[2]) == nil {
			t.Errorf("%s has no flag --%s: %v", m[1], m[2], err)
		}
	}
}
