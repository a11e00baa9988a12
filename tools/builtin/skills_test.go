package builtin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// newSkillBench has the tools for skills, the tool web.search for those that need it, and no variables.
func newSkillBench(t *testing.T) bench {
	t.Helper()
	root, err := rootfs.New(t.TempDir())
	must(t, err)
	t.Cleanup(func() { root.Close() })
	store, err := skills.New(root, skills.Options{
		Env: func(string) bool { return false }, Tool: func(name string) bool { return name == "web.search" },
	})
	must(t, err)
	registry, err := tools.NewRegistry(builtin.SkillsList(store), builtin.SkillsRead(store, choices{"off": false}),
		builtin.SkillsEnabled(store, choices{"off": false, "later": true}), builtin.Read(roots.Only(root), nil))
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, p, roleOf(corebot.RoleNormal), tools.Options{})
	must(t, err)
	return bench{t, "", root, map[corebot.Role]*tools.Box{corebot.RoleNormal: box}}
}

// skill writes one with these lines of front matter behind its name.
func (b bench) skill(name, page string, lines ...string) {
	b.Helper()
	must(b.T, b.root.Write(skills.Path(name), []byte("---\nname: "+name+"\n"+strings.Join(lines, "\n")+"\n---\n"+page)))
}

// choices are those of every chat.
type choices corebot.SkillChoices

func (c choices) Skills(context.Context, corebot.Key) (corebot.SkillChoices, error) {
	return corebot.SkillChoices(c), nil
}

func TestAChatHasTheSkillsThatAreSwitchedOnThere(t *testing.T) {
	b := newSkillBench(t)
	b.skill("off", "Never.", "description: Does it.")
	b.skill("later", "Later.", "description: Does it later.", "trigger: manual")
	b.skill("asked", "Asked.", "description: Does it when asked.", "trigger: keyword", "keywords: [tea, coffee]")
	b.skill("hidden", "Hidden.", "description: Hides.", "trigger: manual")
	b.wants(corebot.OutcomeError, "the skill off is switched off in this chat", "skills.read", args{"name": "off"})
	b.wants(corebot.OutcomeSuccess, "Hidden.", "skills.read", args{"name": "hidden"})
	b.wants(corebot.OutcomeSuccess, "asked: Does it when asked. [for messages with: tea, coffee]\nlater: Does it "+
		"later. [switched on here]\n", "skills.enabled", args{})
}

func TestSkillsAreListedAndRead(t *testing.T) {
	b := newSkillBench(t)
	b.wants(corebot.OutcomeSuccess, "[there are no skills]", "skills.list", args{})
	b.skill("tea", "# Tea\n\nBoil water.\n", "description: Makes tea.", "requires:", "- tools: [web.search]")
	b.skill("coffee", "Grind.", "description: Makes coffee.", "requires:", "- tools: [mcp__mill__grind]")
	b.skill("secret", "Open.", "description: Opens it.", "requires:", "- env: [VAULT_KEY]")
	b.skill("bad", "x", "always: perhaps")
	r := b.call(corebot.RoleNormal, here, "skills.list", args{})
	want := "bad [cannot be used: its page is wrong, and the operator can see how]\ncoffee: Makes coffee. [cannot be " +
		"used: needs tool mcp__mill__grind]\n" +
		"secret: Opens it. [cannot be used: the operator has not set what it needs]\ntea: Makes tea.\n"
	if r.Content != want || r.Outside {
		t.Errorf("got %q, outside %v", r.Content, r.Outside)
	}
	b.wants(corebot.OutcomeSuccess, "# Tea\n\nBoil water.\n", "skills.read", args{"name": "tea"})
	b.wants(corebot.OutcomeError, "the skill coffee cannot be used: needs tool mcp__mill__grind", "skills.read",
		args{"name": "coffee"})
	b.wants(corebot.OutcomeError, "the skill secret cannot be used: the operator has not set", "skills.read",
		args{"name": "secret"})
	b.wants(corebot.OutcomeError, "always is neither true nor false", "skills.read", args{"name": "bad"})
	b.wants(corebot.OutcomeError, "not found", "skills.read", args{"name": "milk"})
	b.wants(corebot.OutcomeDenied, "neither in the workspace", "skills.read", args{"name": "../../tea"})
}

func TestAPageOfASkillIsTrustedAsTheFileIs(t *testing.T) {
	b := newSkillBench(t)
	b.skill("tea", "Boil water.", "description: Makes tea.")
	for tool, a := range map[string]args{
		"skills.read": {"name": "tea"}, "skills.list": {},
		"fs.read": {"path": "skills/tea/SKILL.md"},
	} {
		if r := b.call(corebot.RoleNormal, here, tool, a); r.Outcome != corebot.OutcomeSuccess || r.Outside {
			t.Errorf("%s: %+v", tool, r)
		}
	}
}

func TestALongPageIsReadInPieces(t *testing.T) {
	b := newSkillBench(t)
	page := strings.Repeat("é", 24_000) + "-" + strings.Repeat("é", 10_000) // a piece ends in the middle of a character
	b.skill("tea", page, "description: Makes tea.")
	b.wants(corebot.OutcomeSuccess, fmt.Sprintf("[up to byte 48000 of %d; go on with offset 48000]", len(page)),
		"skills.read", args{"name": "tea"})
	b.wants(corebot.OutcomeSuccess, "é-é", "skills.read", args{"name": "tea", "offset": 47_998})
	r := b.call(corebot.RoleNormal, here, "skills.read", args{"name": "tea", "offset": 48_000})
	if want := page[48_000:] + fmt.Sprintf("\n[the end of %d bytes]", len(page)); r.Content != want {
		t.Errorf("the second piece is %.50q ... %.50q", r.Content, r.Content[max(0, len(r.Content)-50):])
	}
	b.wants(corebot.OutcomeSuccess, "is past the end: the skill tea has 68001 bytes", "skills.read",
		args{"name": "tea", "offset": 1 << 40})
	b.wants(corebot.OutcomeError, "offset -1", "skills.read", args{"name": "tea", "offset": -1})
}

func TestALongListOfSkillsIsReadInPieces(t *testing.T) {
	b := newSkillBench(t)
	for i := range 60 {
		b.skill(fmt.Sprintf("s%02d", i), "x", "description: "+strings.Repeat("x", 1000))
	}
	seen, after := 0, ""
	for range 3 {
		r := b.call(corebot.RoleNormal, here, "skills.list", args{"after": after})
		lines := strings.Split(strings.TrimSpace(r.Content), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "[") {
			seen += len(lines)
			break
		}
		seen += len(lines) - 1
		after = lines[len(lines)-2][:3]
		if want := fmt.Sprintf("[there are %d more; go on with after %q]", 60-seen, after); last != want ||
			len(r.Content) > 33<<10 {
			t.Fatalf("%d bytes that end in %q, want %q", len(r.Content), last, want)
		}
	}
	if seen != 60 {
		t.Errorf("%d skills were seen", seen)
	}
}
