package skills_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
)

// looking is a workspace in which the prompt's index and the lines of a chat come from one skill each.
type looking struct {
	*testing.T
	root  *rootfs.Root
	dir   string
	store *skills.Store
	tools map[string]bool
	chat  corebot.Key
}

func newLooking(t *testing.T) looking {
	dir := t.TempDir()
	root, err := rootfs.New(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	l := looking{
		T: t, root: root, dir: dir, tools: map[string]bool{},
		chat: corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"},
	}
	l.store, err = skills.New(root, skills.Options{
		Tool: func(name string) bool { return l.tools[name] }, Log: zerolog.Nop(),
	})
	must(t, err)
	return l
}

func (l looking) page(name, description string) string {
	return page("name: "+name, "description: "+description)
}

// edit writes a skill as an editor does it: not through the root.
func (l looking) edit(dir, name, description string) {
	l.Helper()
	at := filepath.Join(l.dir, filepath.FromSlash(dir), name)
	must(l, os.MkdirAll(at, 0o700))
	must(l, os.WriteFile(filepath.Join(at, skills.FileName), []byte(l.page(name, description)), 0o600))
}

// want looks for what a turn is told: in the index, and beside it.
func (l looking) want(when, index, here string) {
	l.Helper()
	if got := l.store.Prompt(); !strings.HasSuffix(got, index) || index == "" && got != "" {
		l.Errorf("%s the index is %q, want %q", when, got, index)
	}
	if got := l.store.Here(l.chat, nil, ""); !strings.HasSuffix(got, here) || here == "" && got != "" {
		l.Errorf("%s the chat is told %q, want %q", when, got, here)
	}
}

func TestALookAtTheSkillsOfAllScopesIsASecondOldAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooking(t)
		own, account := skills.DirOf(l.chat), skills.DirOf(l.chat.InChannel())
		l.want("at first", "", "")
		l.edit(skills.Dir, "tea", "one")
		l.edit(own, "milk", "one")
		l.edit(account, "rum", "one")
		time.Sleep(time.Second - 1)
		l.want("within a second", "", "") // what nobody has told of is not looked for
		time.Sleep(time.Nanosecond)
		l.want("after a second", "- tea: one\n", "- milk: one\n- rum: one")
		for _, dir := range []string{skills.Dir, own, account} {
			l.edit(dir, map[string]string{skills.Dir: "tea", own: "milk", account: "rum"}[dir], "two")
		}
		l.want("at the same moment", "- tea: one\n", "- milk: one\n- rum: one")
		if found, err := l.store.AllFor(l.chat); err != nil || len(found.Skills) != 3 ||
			found.Skills[0].Description != "two" {
			t.Errorf("a list is not as of now: %+v %v", found.Skills, err)
		}
		l.want("after the list", "- tea: one\n", "- milk: one\n- rum: one")
		l.store.Renew()
		l.want("once they are renewed", "- tea: two\n", "- milk: two\n- rum: two")
		time.Sleep(time.Second)
		l.want("a second later", "- tea: two\n", "- milk: two\n- rum: two")
	})
}

func TestEachChangeThroughTheRootIsInTheNextPromptOfAllScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		l := newLooking(t)
		own := skills.DirOf(l.chat)
		path, chatPath := skills.Path("tea"), own+"/milk/"+skills.FileName
		write := func(path, name, description string) {
			must(t, l.root.Write(path, []byte(l.page(name, description))))
		}
		l.want("at first", "", "")
		write(path, "tea", "one")
		l.want("after a write", "- tea: one\n", "")
		write(chatPath, "milk", "one")
		l.want("after a write for the chat", "- tea: one\n", "- milk: one")
		write(chatPath, "milk", "two")
		l.want("after another", "- tea: one\n", "- milk: two")
		must(t, l.root.Remove(chatPath))
		l.want("after a removal", "- tea: one\n", "")
		l.edit(skills.Dir, "tea", "two")
		l.root.Changed("skills")
		l.want("after a program", "- tea: two\n", "")
		must(t, l.root.Remove(path))
		l.want("after the last is removed", "", "")
	})
}

// A tool can come while the look holds: an MCP server that starts makes skills usable at once.
func TestAToolThatComesOrGoesIsNoMatterOfTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooking(t)
		l.edit(skills.Dir, "tea", "one\nrequires:\n- tools: [kettle]")
		l.edit(skills.DirOf(l.chat), "milk", "one\nrequires:\n- tools: [cow]")
		l.want("without tools", "", "")
		l.tools["kettle"], l.tools["cow"] = true, true
		l.want("with tools", "- tea: one\n", "- milk: one")
		clear(l.tools)
		l.want("without them again", "", "")
	})
}
