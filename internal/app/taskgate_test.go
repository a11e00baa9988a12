package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/workspace"
)

// TestATaskMayRunWhileItsMakerMayMakeIt asks the gate at the due time of tasks of a home with two agents and a network.
func TestATaskMayRunWhileItsMakerMayMakeIt(t *testing.T) {
	ann := corebot.Principal{Channel: "line", Account: "main", ID: "ann"}
	owner := corebot.Principal{Channel: corebot.TerminalChannel, Account: corebot.TerminalAccount, ID: "77"}
	room := corebot.Key{Agent: "main", Channel: "line", Account: "main", Chat: "room"}
	elsewhere, shut := room, room
	elsewhere.Chat, shut.Chat = "elsewhere", "shut"
	with := func(k corebot.Key, change func(*corebot.Key)) corebot.Key {
		change(&k)
		return k
	}
	anns := corebot.Task{Key: room, From: room, Creator: ann}
	for name, c := range map[string]struct {
		settings string // in the place of the network's
		process  func(*App)
		change   func(*corebot.Task)
		admin    bool   // ann is admin everywhere
		want     string // the beginning of the fault
		told     corebot.Key
		waits    bool
	}{
		"its maker is listed": {},
		"banned since":        {settings: `{allowlist: ["line:main:bob"]}`, want: "its maker may not talk", told: room},
		"groups are off": {
			settings: `{access: open, groups: off}`, change: func(t *corebot.Task) { t.Group = true },
			want: "its maker may not talk where it was made: this account does not talk in groups",
		},
		"groups are off, and it was made alone": {settings: `{access: open, groups: off}`},
		"the chat is shut": {
			change: func(t *corebot.Task) { t.Key, t.From = shut, shut }, want: "its chat is shut",
		},
		"for another chat": {
			change: func(t *corebot.Task) { t.Key = elsewhere }, want: "its maker may not make it any more",
			told: elsewhere,
		},
		"for another chat, by its admin": {
			change: func(t *corebot.Task) { t.Key = elsewhere }, admin: true,
		},
		"for another chat, by its admin and others": {
			change: func(t *corebot.Task) {
				t.Key, t.Others = elsewhere, []corebot.Principal{{Channel: "line", Account: "main", ID: "bob"}}
			},
			admin: true, want: "its maker may not make it any more", told: elsewhere,
		},
		"by the operator": {change: func(t *corebot.Task) { t.Creator, t.From = owner, corebot.Key{} }},
		"by the operator, for a chat that is shut": {
			change: func(t *corebot.Task) { t.Creator, t.From, t.Key = owner, corebot.Key{}, shut },
			want:   "its chat is shut",
		},
		"its agent is gone": {
			change: func(t *corebot.Task) { t.Key = with(room, func(k *corebot.Key) { k.Agent = "gone" }) },
			want:   `there is no agent "gone"`, told: with(room, func(k *corebot.Key) { k.Agent = "gone" }),
		},
		"its channel is gone": {
			change: func(t *corebot.Task) { t.Key = with(room, func(k *corebot.Key) { k.Account = "old" }) },
			want:   "the channel line:old is not in the settings",
		},
		"the webhook is switched off": {
			change: func(t *corebot.Task) { t.Key = corebot.Key{Agent: "main", Channel: "webhook", Chat: "c"} },
			want:   "the channel webhook is switched off",
		},
		"this process runs another agent": {process: func(a *App) { a.only = "other" }, waits: true},
		"this process is a terminal":      {process: func(a *App) { a.serves = false }, waits: true},
		"this process is a terminal, and so is the chat": {
			process: func(a *App) { a.serves = false },
			change: func(t *corebot.Task) {
				t.Creator, t.Key = owner, corebot.Key{Agent: "other", Channel: "cli", Account: "local", Chat: "x"}
				t.From = t.Key
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.settings == "" {
				c.settings = `{allowlist: ["line:main:ann"]}`
			}
			a := gated(t, c.settings)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(storage.NewChats(a.Store).SetAccess(t.Context(), shut, corebot.DenyChat))
			if c.admin {
				must(storage.NewGrants(a.Store).Grant(t.Context(), corebot.Grant{
					Principal: ann, Role: corebot.RoleAdmin,
				}))
			}
			task := anns
			if c.change != nil {
				c.change(&task)
			}
			if c.process != nil {
				c.process(a)
			}
			gate, err := a.taskGate(a.Store)
			must(err)
			v, err := gate.Judge(t.Context(), task)
			must(err)
			if v.Wait != c.waits || (v.Fault != "") != (c.want != "") || !strings.HasPrefix(v.Fault, c.want) ||
				v.Tell != c.told {
				t.Errorf("the verdict is %+v, want %q, told to %v, waits %t", v, c.want, c.told, c.waits)
			}
		})
	}
}

// gated is what a gate needs of an app that serves a home.
func gated(t *testing.T, account string) *App {
	t.Helper()
	home := t.TempDir()
	text := "llm: {offline: true}\nwebhook: {enabled: false}\nagents: [{id: main}, {id: other}]\n" +
		"channels:\n  line:\n    main: " + strings.Replace(account, "{", `{addr: "127.0.0.1:1",
			token: file:line.token, `, 1)
	for name, content := range map[string]string{"corebot.yaml": text, "line.token": "secret"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := LoadConfig(home, line.Network())
	if err != nil {
		t.Fatal(err)
	}
	db, err := storage.Open(t.Context(), DataDir(home), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	a := &App{config: settings, Store: db, serves: true}
	a.networks = append(a.networks, line.Network())
	return a
}

func TestAHeartbeatReadsItsPageAndPassesWhatIsNotToBeDone(t *testing.T) {
	a := gated(t, `{access: open}`)
	notes, err := openWorkspace(place{a.config.Home, "main"}, chatQuota(a.config.Tools), nil, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = notes.root.Close() })
	a.agents.all = map[string]*agentUnit{"main": {notes: notes}}
	gate, err := a.taskGate(a.Store)
	if err != nil {
		t.Fatal(err)
	}
	task := corebot.Task{
		Key:      corebot.Key{Agent: "main", Channel: "line", Account: "main", Chat: "room"},
		Schedule: corebot.Schedule{Kind: corebot.TaskHeartbeat}, Creator: ownerOf(a.config.Home),
	}
	look := func(what, page string) corebot.Verdict {
		t.Helper()
		if page != "" {
			path := filepath.Join(place{a.config.Home, "main"}.workspace(), workspace.Heartbeat)
			if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		v, err := gate.Judge(t.Context(), task)
		if err != nil || v.Fault != "" || v.Wait {
			t.Fatalf("%s: %+v, %v", what, v, err)
		}
		return v
	}
	if v := look("the template", ""); v.Skip == "" {
		t.Errorf("the template asks for %q", v.Prompt)
	}
	if v := look("a point", "# Heartbeat\n- the disk\n"); v.Skip != "" || v.Prompt != "# Heartbeat\n- the disk" {
		t.Errorf("the page with a point gives %+v", v)
	}
	long := look("a long page", strings.Repeat("- the disk\n", 5000))
	if n := len(long.Prompt); n > corebot.MaxTaskPrompt || !strings.HasSuffix(long.Prompt,
		"a heartbeat has at most 16 KiB)") {
		t.Errorf("a long page gives %d bytes that end with %q", n, long.Prompt[max(0, n-100):])
	}
	m := corebot.Message{
		ID: "1", Direction: corebot.Inbound, Key: task.Key, Kind: corebot.KindPrompt, Parts: corebot.TextPart("x"),
	}
	if _, err := storage.NewQueue(a.Store).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
		t.Fatal(err)
	}
	if v := look("a busy chat", "- the disk"); v.Skip != "the chat is busy" {
		t.Errorf("in a busy chat: %+v", v)
	}
}

func TestOnlyAHeartbeatOnTheOwnersChannelIsReadByTheOwnerAlone(t *testing.T) {
	for chat, overheard := range map[string]bool{"main:cli:local:main": false, "main:line:main:room": true} {
		beat := config.Heartbeat{Every: time.Hour, Chat: chat, From: "08:00", To: "22:00"}
		c := config.Defaults()
		c.Agents = config.NewEntries(config.AgentEntry{ID: "main", Heartbeat: beat})
		tasks, err := (&App{config: c}).heartbeats(time.Now())
		if err != nil || tasks["main"].Overheard != overheard {
			t.Errorf("in %s: %+v, %v", chat, tasks["main"], err)
		}
	}
}

func TestTheHeartbeatsOfTheSettingsAreTasks(t *testing.T) {
	a := gated(t, `{access: open}`)
	list := func() (all []corebot.Task) {
		t.Helper()
		if err := a.keepHeartbeats(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, _, err := storage.NewTasks(a.Store).Page(t.Context(), corebot.TaskFilter{}, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	set := func(every time.Duration) {
		a.config.Agents = config.NewEntries(config.AgentEntry{
			ID: "main", Heartbeat: config.Heartbeat{
				Every: every, Chat: "main:line:main:room", From: "08:00",
				To: "22:00",
			},
		})
	}
	if all := list(); len(all) != 0 {
		t.Fatalf("without settings there are %+v", all)
	}
	set(30 * time.Minute)
	all := list()
	if len(all) != 1 || all[0].Schedule.Spec != "30m 08:00-22:00" || all[0].Creator != ownerOf(a.config.Home) {
		t.Fatalf("the settings made %+v", all)
	}
	if _, err := storage.NewTasks(a.Store).Change(t.Context(), all[0].ID, 0, corebot.TaskPause,
		time.Time{}); err != nil {
		t.Fatal(err)
	}
	if again := list(); len(again) != 1 || again[0].ID != all[0].ID || again[0].State != corebot.TaskPaused {
		t.Errorf("at the next start: %+v", again)
	}
	set(time.Hour)
	if other := list(); len(other) != 1 || other[0].ID == all[0].ID || other[0].Schedule.Spec != "1h 08:00-22:00" {
		t.Errorf("with other settings: %+v", other)
	}
	set(0)
	if none := list(); len(none) != 0 {
		t.Errorf("switched off: %+v", none)
	}
}
