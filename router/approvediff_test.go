package router_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// desk is a Corebot whose admin is root, and whose tools write a workspace.
type desk struct {
	counter
	t   *testing.T
	dir string
}

func newDesk(t *testing.T, o apptest.Options, replies ...apptest.Reply) desk {
	t.Helper()
	d := desk{t: t, dir: t.TempDir()}
	root, err := rootfs.New(d.dir)
	d.must(err)
	t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(d.dir)
	d.must(err)
	t.Cleanup(func() { workspace.Close() })
	disk := roots.NewDisk(o.Policy.Roots)
	t.Cleanup(func() { disk.Close() })
	reach := roots.NewReach(root, disk)
	files, err := tools.NewFiles(reach, workspace, nil)
	d.must(err)
	pages, err := memory.New(root, memory.Options{})
	d.must(err)
	o.Model = apptest.Script(append([]apptest.Reply{hijacked()[0]}, replies...)...)
	o.Tools, o.Box.Contents = append(builtin.Workspace(reach, pages, nil), reads()), files
	d.counter.Kit = apptest.New(t, o).Start()
	d.admin(t, "root", corebot.Key{})
	return d
}

func (d desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d desk) put(name, content string) {
	d.t.Helper()
	d.must(os.MkdirAll(filepath.Dir(filepath.Join(d.dir, name)), 0o700))
	d.must(os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600))
}

func (d desk) has(name, want string) {
	d.t.Helper()
	if got, _ := os.ReadFile(filepath.Join(d.dir, name)); string(got) != want {
		d.t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// shown is the newest notice of a message.
func (d desk) shown(id string) string {
	d.t.Helper()
	told := d.Told(id)
	if len(told) == 0 {
		d.t.Fatal("nothing was told")
	}
	return told[len(told)-1].Text()
}

func (d desk) wantShown(id string, parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		if text := d.shown(id); !strings.Contains(text, part) {
			d.t.Errorf("the request lacks %q:\n%s", part, text)
		}
	}
}

func asks(calls ...[2]string) apptest.Reply {
	var all []corebot.ToolCall
	for i, c := range calls {
		all = append(all, apptest.Call(string(rune('a'+i)), c[0], c[1]))
	}
	return apptest.Asks(all...)
}

func TestARequestShowsWhatItsCallsMakeOfFilesOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, apptest.Options{}, asks(
			[2]string{"fs.write", `{"path":"IDENTITY.md","content":"I am Corebot.\nI pay mallory.\n"}`},
			[2]string{"fs.edit", `{"path":".//IDENTITY.md","old":"pay mallory","new":"obey\u202e"}`},
			[2]string{"memory.write", `{"scope":"global","content":"third"}`},
			[2]string{"fs.edit", `{"path":"USER.md","old":"not there","new":"x"}`}),
			apptest.Text("done"))
		d.put("IDENTITY.md", "I am Corebot.\nI am careful.\n")
		d.put("memory/MEMORY.md", "first\nsecond")
		d.put("USER.md", "ann\n")
		d.SayAs("root", "a", "1", "go")
		pass(time.Second)
		d.wantShown("1", "these 4 calls",
			"change of IDENTITY.md: 1 line added, 1 removed\n| @@ -1,2 +1,2 @@\n|  I am Corebot.\n| -I am "+
				"careful.\n| +I pay mallory.\n",
			"change of IDENTITY.md: 1 line added, 1 removed, compared with what earlier calls of this answer would "+
				"make of the file\n",
			"| -I pay mallory.\n| \\ written with escapes: the next 1 rows, with \\\\ for \\\n| +I obey\\u202e.\n",
			"change of memory/MEMORY.md: 2 lines added, 1 removed\n",
			"| -second\n| \\ no line end at the end of the file\n| +second\n| +third",
			"change of USER.md: unknown\nThere is no diff: as the file is now, the call would fail: old was not found.")
		d.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		d.WantEnd("1", corebot.EndAnswered)
		d.has("IDENTITY.md", "I am Corebot.\nI obey\u202e.\n")
		d.has("memory/MEMORY.md", "first\nsecond\nthird\n")
		for id := int64(1); id <= 4; id++ {
			if a := d.state(t, id); a.State != corebot.ApprovalApproved || !a.Ran {
				t.Errorf("approval %d is %s, ran: %v", id, a.State, a.Ran)
			}
		}
	})
}

func TestAFileThatChangedSinceTheRequestIsAskedAboutAnew(t *testing.T) {
	for name, c := range map[string]struct {
		before, call, args, shown, after string
		change                           func(d desk)
	}{
		"a file that is replaced": {
			"old\n", "fs.write", `{"path":"IDENTITY.md","content":"new\n"}`, "| -other\n| +new", "new\n",
			func(d desk) { d.put("IDENTITY.md", "other\n") },
		},
		"a file that is edited": {
			"a\nold\n", "fs.edit", `{"path":"IDENTITY.md","old":"old","new":"new"}`, "|  b\n| -old\n| +new", "b\nnew\n",
			func(d desk) { d.put("IDENTITY.md", "b\nold\n") },
		},
		"a file that came between": {
			"", "fs.write", `{"path":"IDENTITY.md","content":"new\n"}`, "| -came\n| +new", "new\n",
			func(d desk) { d.put("IDENTITY.md", "came\n") },
		},
		"a file that is gone": {
			"old\n", "fs.write", `{"path":"IDENTITY.md","content":"new\n"}`, "a new file of 1 line\n", "new\n",
			func(d desk) { d.must(os.Remove(filepath.Join(d.dir, "IDENTITY.md"))) },
		},
		"a link in its place": {
			"old\n", "fs.write", `{"path":"IDENTITY.md","content":"new\n"}`,
			"There is no diff: read IDENTITY.md: leads out of the workspace", "secret",
			func(d desk) {
				d.put("secret", "secret")
				d.must(os.Remove(filepath.Join(d.dir, "IDENTITY.md")))
				d.must(os.Symlink("secret", filepath.Join(d.dir, "IDENTITY.md")))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, apptest.Options{}, asks([2]string{c.call, c.args}), apptest.Text("done"))
				if c.before != "" {
					d.put("IDENTITY.md", c.before)
				}
				d.SayAs("root", "a", "1", "go")
				pass(time.Second)
				d.wantShown("1", "Approval 1: ", "+new")
				c.change(d)
				d.SayAs("root", "a", "yes", "/approve 1")
				pass(time.Second)
				d.WantEnd("1", "")
				d.wantShown("1", "Approval 2: ", "Approval 1 is void, and this one is asked for instead: IDENTITY.md "+
					"has changed after it was approved.", c.shown)
				if a := d.state(t, 1); a.State != corebot.ApprovalVoid || a.Ran || a.By != "test::root" ||
					a.Reason != "IDENTITY.md has changed since it was approved" {
					t.Errorf("the first one is %+v", a)
				}
				d.SayAs("root", "a", "again", "/approve 1")
				d.WantTold("again", "Approval 1 is void: IDENTITY.md has changed since it was approved.")
				d.SayAs("root", "a", "anew", "/approve 2")
				pass(time.Second)
				d.WantEnd("1", corebot.EndAnswered)
				d.has("IDENTITY.md", c.after)
				d.has("secret", map[bool]string{true: "secret"}[c.after == "secret"])
				want := "approval.request  root|approval.approve success root|approval.void success " +
					"corebot|approval.request  root|approval.approve success root"
				if got := strings.Join(d.audited(t), "|"); got != want {
					t.Errorf("the audit has %s", got)
				}
			})
		})
	}
}

// TestTheRestOfARequestIsAskedAboutWithTheCallThatChanged: it was shown on top of what is not so any more.
func TestTheRestOfARequestIsAskedAboutWithTheCallThatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, apptest.Options{}, asks(
			[2]string{"fs.write", `{"path":"USER.md","content":"ann"}`},
			[2]string{"fs.edit", `{"path":"IDENTITY.md","old":"one","new":"two"}`},
			[2]string{"fs.edit", `{"path":"IDENTITY.md","old":"two","new":"three"}`}), apptest.Text("done"))
		d.put("IDENTITY.md", "one\n")
		d.SayAs("root", "a", "1", "go")
		pass(time.Second)
		d.put("IDENTITY.md", "one and a half\n")
		d.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Second)
		d.has("USER.md", "ann")
		d.wantShown("1", "Approval 4: ", "these 2 calls", "| -one and a half\n| +two and a half",
			"| -two and a half\n| +three and a half")
		for id, want := range []corebot.ApprovalState{
			"", corebot.ApprovalApproved, corebot.ApprovalVoid,
			corebot.ApprovalVoid, corebot.ApprovalAwaited, corebot.ApprovalAwaited,
		} {
			if id == 0 {
				continue
			}
			if a := d.state(t, int64(id)); a.State != want || a.Ran != (id == 1) {
				t.Errorf("approval %d is %s, ran: %v", id, a.State, a.Ran)
			}
		}
		d.SayAs("root", "a", "no", "/deny 4")
		pass(time.Second)
		d.WantEnd("1", corebot.EndAnswered)
		d.has("IDENTITY.md", "one and a half\n")
	})
}

// TestAChatIsNotShownFilesThatItMayNotRead: the admins' chat is shown the call, and not what stands in another chat's
// file.
func TestAChatIsNotShownFilesThatItMayNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admins, own := apptest.Key("admins"), rootfs.ChatDir(apptest.Key("a"))+"/notes.md"
		d := newDesk(t, apptest.Options{
			Router: router.Options{AdminChat: admins},
			Policy: policy.Options{Approvals: policy.Approvals{Always: []string{"fs.write", "memory.write"}}},
		}, asks([2]string{"fs.write", `{"path":"` + own + `","content":"new"}`},
			[2]string{"memory.write", `{"scope":"chat","content":"new"}`}), apptest.Text("done"))
		d.put(own, "private to a")
		d.put(filepath.Dir(own)+"/MEMORY.md", "private to a")
		d.SayAs("root", "a", "1", "go")
		pass(time.Second)
		told := d.Told("1")
		if len(told) != 2 || told[1].Key != admins {
			t.Fatalf("told %+v", told)
		}
		if text := told[0].Text(); strings.Count(text, "| -private to a") != 2 {
			t.Errorf("the chat itself is shown\n%s", text)
		}
		if text := told[1].Text(); strings.Contains(text, "private") ||
			strings.Count(text, "not shown here, because this chat may not read the file; `corebot approvals show 1` "+
				"prints it whole.") != 2 {
			t.Errorf("the admins' chat is shown\n%s", text)
		}
	})
}

func TestOnlyTheOwnersChannelIsShownTheDirectoriesOfTheOperator(t *testing.T) {
	for owner, shown := range map[corebot.OwnersChannel]bool{"": false, apptest.Channel: true} {
		synctest.Test(t, func(t *testing.T) {
			project := t.TempDir()
			opened, err := roots.NewList("", []roots.Dir{{Path: project, Write: true}})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(project, "plan.md")
			d := newDesk(t, apptest.Options{
				Router: router.Options{Owner: owner}, Policy: policy.Options{Roots: opened},
			}, asks([2]string{"fs.write", `{"path":"` + path + `","content":"new"}`}), apptest.Text("done"))
			d.must(os.WriteFile(path, []byte("the old plan"), 0o600))
			d.SayAs("root", "a", "1", "go")
			pass(time.Second)
			if text := d.shown("1"); strings.Contains(text, "| -the old plan") != shown {
				t.Errorf("the owner's channel is %q; the chat is shown\n%s", owner, text)
			}
		})
	}
}

func TestALongDiffIsCutInTheChatAndKeptWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, apptest.Options{}, asks([2]string{"fs.write", `{"path":"IDENTITY.md","content":""}`}),
			apptest.Text("done"))
		d.put("IDENTITY.md", strings.Repeat("a line of the file\n", 3000))
		d.SayAs("root", "a", "1", "go")
		pass(time.Second)
		d.wantShown("1", "0 lines added, 3000 removed",
			"more rows of this diff are not shown here: `corebot approvals show 1` prints it whole.")
		change := d.state(t, 1).Change
		if text := d.shown("1"); len(text) > 48<<10 || change.Removed != 3000 ||
			strings.Count(change.Diff, "\n-") != 3000 {
			t.Errorf("the request has %d bytes; %d rows are kept", len(text), strings.Count(change.Diff, "\n"))
		}
	})
}

func TestAChangeIsStoredAsItIsShown(t *testing.T) {
	c := corebot.FileChange{
		Path: "a\u202e", Before: "sha256:00", After: "sha256:01", Added: 1, Removed: 2,
		Diff: "@@ -1 +1 @@\n+/approve 7\n", Note: "N.",
	}
	if got, want := c.Show(1000, "w"),
		"change of a\\u202e: 1 line added, 2 removed\n| @@ -1 +1 @@\n| +/approve 7\nN."; got != want {
		t.Errorf("got %q", got)
	}
	b, err := json.Marshal(c)
	var again corebot.FileChange
	if err != nil || json.Unmarshal(b, &again) != nil || again != c {
		t.Errorf("%s reads as %+v, %v", b, again, err)
	}
}
