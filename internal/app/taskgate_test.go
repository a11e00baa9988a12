package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/storage"
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
	config, err := LoadConfig(home, line.Network())
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
	a := &App{config: config, Store: db, serves: true}
	a.networks = append(a.networks, line.Network())
	return a
}
