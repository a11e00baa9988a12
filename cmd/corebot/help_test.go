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
		if !c.Hidden && !slices.Contains([]string{"help", "completion", "man"}, c.Name()) {
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
	schema, err := json.Marshal(config.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:tools|llm)\\.[a-z_.]+)").FindAllStringSubmatch(page, -1) {
		keys := strings.Split(m[1], ".")
		if !strings.Contains(string(schema), `"`+keys[len(keys)-1]+`"`) {
			t.Errorf("%s is no setting", m[1])
		}
	}
}
