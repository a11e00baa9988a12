package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/operate"
)

// asSkills has each item be a page of a skill: whole, as its front matter, as its description, and as what is behind
// that. The daemon reads them all, as it does for each turn.
func (f *fort) asSkills() {
	usable := 0
	// the skill that a new home has would be one more than there can be
	if err := os.RemoveAll(filepath.Join(f.home, "workspace", skills.Dir, "corebot-help")); err != nil {
		f.t.Fatal(err)
	}
	for part, items := range slices.Collect(slices.Chunk(f.items, skills.MaxSkills)) {
		dir := filepath.Join(f.home, "workspace", skills.Dir)
		for i, item := range items {
			name := fmt.Sprintf("s%d-%d", part, i)
			quoted, err := json.Marshal(item)
			if err != nil {
				f.t.Fatal(err)
			}
			page := []string{
				item,
				"---\nname: " + name + "\ndescription: x\n" + item + "\n---\n",
				"---\nname: " + name + "\ndescription: " + string(quoted) + "\n---\n" + item,
				"---\nname: " + name + "\ndescription: x\nmetadata: " + item + "\n---\n",
			}[(part+i)%4]
			if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
				f.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, skills.FileName), []byte(page), 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
		found, err := operate.ListSkills.Call(f.t.Context(), f.control, operate.SkillsQuery{})
		if err != nil || len(found.Rows) != len(items) {
			f.t.Fatalf("%d of %d skills are listed: %v", len(found.Rows), len(items), err)
		}
		for _, s := range found.Rows {
			f.requireOrdinarySkill(s)
			if s.State == operate.SkillUsable {
				usable++
			}
		}
		for i := range items {
			if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("s%d-%d", part, i))); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	f.t.Logf("%d of %d pages are skills that can be used, the others were refused", usable, len(f.items))
	if usable < len(f.items)/8 || usable == len(f.items) {
		f.t.Error("as good as none, or all of them, could be used: the test is broken")
	}
}

// requireOrdinarySkill: a skill is within the rules and has nothing hidden, or an error says what is wrong.
func (f *fort) requireOrdinarySkill(s operate.Skill) {
	broken := s.State == operate.SkillBroken
	if broken != (s.Error != "") || !broken && (s.Description == "" || utf8.RuneCountInString(s.Description) > 1024) {
		f.t.Errorf("a skill is %+v", s)
	}
	if hides(s.Description) || !utf8.ValidString(s.Error) || len(s.Error) > 1_500 {
		f.t.Errorf("a skill is described as %.300q, with the error %.300q", s.Description, s.Error)
	}
}
