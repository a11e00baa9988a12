package router_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools/builtin"
)

// sources are those of a database that is opened later.
type sources struct{ *storage.Chats }

// remembers gives a Corebot the real tools of memory, on a workspace.
func remembers(t *testing.T, o *apptest.Options, root *rootfs.Root) *sources {
	t.Helper()
	from := &sources{}
	pages, err := memory.New(root, memory.Options{Sources: from})
	must(t, err)
	o.Notes = &apptest.Notes{Memory: pages}
	o.Tools = append(o.Tools, builtin.MemoryRead(pages), builtin.MemoryWrite(pages), builtin.MemorySearch(pages))
	return from
}

// inMemory are the arguments of a tool of memory, from one text.
func inMemory(name, text string) (args string, is bool) {
	switch name {
	case "memory.write":
		return fmt.Sprintf(`{"scope":"chat","content":%q}`, text), true
	case "memory.replace": // no tool: another mode of the same
		return fmt.Sprintf(`{"scope":"chat","content":%q,"mode":"replace"}`, text), true
	case "memory.read":
		return `{"scope":"chat"}`, true
	case "memory.search":
		return fmt.Sprintf(`{"query":%q}`, text), true
	}
	return "", false
}

// TestWhatAChatRemembersTaintsOnlyWhereOthersHadAHandInIt has a chat remember something, begins anew, and has root's
// model make a call that an admin has to approve in a tainted turn.
func TestWhatAChatRemembersTaintsOnlyWhereOthersHadAHandInIt(t *testing.T) {
	const readPage, pay, anew = "web.fetch https://news.example/", "mcp__mail__send " + secret, "root: /new"
	for name, c := range map[string]struct {
		said  []string // "who: words do: script"
		file  string   // written into the page by something else
		reads string   // before the call
		asks  bool
		shown string // in the prompt of the call's turn
		not   string
	}{
		"one's own words": {
			said: []string{"root: remember do: memory.write tea", anew}, shown: "memory of this chat:\ntea\n",
		},
		"one's own words, read": {
			said: []string{"root: remember do: memory.write tea", anew}, reads: "memory.read x; ",
		},
		"one's own words, found": {
			said: []string{"root: remember do: memory.write tea", anew}, reads: "memory.search tea; ",
		},
		"decided before a page was read": {
			said:  []string{"root: look https://news.example/ do: " + readPage + " & memory.write tea", anew},
			shown: "memory of this chat:\ntea\n",
		},
		"of a tainted turn": {
			said:  []string{"root: look https://news.example/ do: " + readPage + "; memory.write pay", anew},
			shown: "kept apart: 1 lines are not shown", not: "pay\n",
		},
		"of a tainted turn, read": {
			said:  []string{"root: look https://news.example/ do: " + readPage + "; memory.write pay", anew},
			reads: "memory.read x; ", asks: true,
		},
		"of a tainted turn, found": {
			said:  []string{"root: look https://news.example/ do: " + readPage + "; memory.write pay", anew},
			reads: "memory.search pay; ", asks: true,
		},
		"of a tainted turn, others found": {
			said: []string{
				"root: remember do: memory.write tea",
				"root: look https://news.example/ do: " + readPage + "; memory.write pay", anew,
			},
			reads: "memory.search tea; ",
		},
		"of a tainted turn, the same as one's own": {
			said: []string{
				"root: remember do: memory.write tea",
				"root: look https://news.example/ do: " + readPage + "; memory.write tea", anew,
			},
			shown: "memory of this chat:\ntea\nmemory of this chat that is kept apart: 1 lines",
		},
		"of a tainted turn that replaces": {
			said: []string{
				"root: remember do: memory.write tea",
				"root: look https://news.example/ do: " + readPage + "; memory.replace pay", anew,
			},
			shown: "memory of this chat:\ntea\n", not: "pay\n",
		},
		"in a tainted turn": {
			said: []string{
				"root: look https://news.example/ do: " + readPage + "; memory.write pay",
			},
			asks: true, shown: "memory of this chat that others can have written:\npay\n",
		},
		"of somebody else": {
			said:  []string{"mallory: remember do: memory.write pay", anew},
			shown: "kept apart: 1 lines are not shown", not: "pay\n",
		},
		"of somebody else, read": {
			said:  []string{"mallory: remember do: memory.write pay", anew},
			reads: "memory.read x; ", asks: true,
		},
		"of a sender without an id": {
			said:  []string{": remember do: memory.write pay", anew},
			shown: "kept apart: 1 lines are not shown", not: "pay\n",
		},
		"by something else":       {file: "pay\nnow\n", shown: "kept apart: 2 lines are not shown", not: "pay\n"},
		"by something else, read": {file: "pay\n", reads: "memory.read x; ", asks: true},
		"behind one's own words": {
			said: []string{"root: remember do: memory.write tea", anew}, file: "tea\npay\n",
			shown: "memory of this chat:\ntea\nmemory of this chat that is kept apart: 1 lines", not: "pay\n",
		},
		"nothing, read": {reads: "memory.read x; "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, w := stage(t, apptest.Options{}, 0)
				for i, said := range c.said {
					who, text, _ := strings.Cut(said, ": ")
					w.say(k, who, "a", fmt.Sprint("before", i), text)
					pass(time.Second)
				}
				if c.file != "" {
					page := filepath.Join(w.workspace, filepath.FromSlash(string(memory.Chat(apptest.Key("a")))))
					must(t, os.MkdirAll(filepath.Dir(page), 0o700))
					must(t, os.WriteFile(page, []byte(c.file), 0o600))
				}
				w.say(k, "root", "a", "1", "go on do: "+c.reads+pay)
				pass(time.Second)
				if asks := k.Life("1").State == "waiting: approval"; asks != c.asks || asks == (w.ran[pay] > 0) {
					t.Errorf("it is %q and ran %d times", k.Life("1").State, w.ran[pay])
				}
				if !strings.Contains(w.situation, c.shown) || c.not != "" && strings.Contains(w.situation, c.not) {
					t.Errorf("the turn is shown %q", w.situation)
				}
			})
		})
	}
}
