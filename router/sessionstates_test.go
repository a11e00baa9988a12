package router_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

// A /rewind waits for the turn that runs, and takes that message back, too. Its answer was sent, and is sent once.
func TestARewindBesideATurnTakesBackTheMessageOfThatTurn(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		left    []string
	}{
		"the last":    {"/rewind", []string{"user: Kafka", "assistant: one"}},
		"both":        {"/rewind 2", nil},
		"more than 2": {"/rewind 9", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := apptest.Script(apptest.Text("one"), apptest.After(10*time.Second, apptest.Text("two")),
					apptest.Text("three"))
				k := apptest.New(t, apptest.Options{Model: model}).Start()
				k.SayAs("ann", "a", "1", "Kafka")
				pass(time.Second)
				k.SayAs("ann", "a", "2", "Camus")
				k.SayAs("ann", "a", "r", c.command)
				k.SayAs("ann", "a", "r", c.command) // a copy
				k.SayAs("ann", "a", "3", "who?")
				pass(5 * time.Second)
				k.WantEnd("r", "")
				pass(10 * time.Second)
				k.WantTold("2", "two")
				k.WantEnd("r", corebot.EndAnswered)
				if told := k.Told("r"); len(told) != 1 || !strings.Contains(told[0].Text(), "rewound") {
					t.Errorf("told %+v", told)
				}
				if got := k.Transcript("a"); !slices.Equal(got, append(c.left, "user: who?", "assistant: three")) {
					t.Errorf("in play is %q", got)
				}
				for _, m := range model.Last().Messages {
					if strings.Contains(m.Text, "Camus") || strings.Contains(m.Text, "Kafka") != (c.left != nil) &&
						strings.Contains(m.Text, "Kafka") {
						t.Errorf("the model was shown %q", m.Text)
					}
				}
			})
		})
	}
}

// A message that was stopped is the last one for a /rewind, whatever it has left.
func TestARewindAfterAStopTakesBackTheStoppedMessageAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Script(apptest.Text("one"), apptest.Hangs(), apptest.Text("three"))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.SayAs("ann", "a", "1", "Kafka")
		pass(time.Second)
		k.SayAs("ann", "a", "2", "Camus")
		pass(time.Second)
		k.SayAs("ann", "a", "r", "/rewind")
		k.SayAs("ann", "a", "s", "/stop")
		pass(time.Second)
		k.WantEnd("2", corebot.EndStopped)
		k.WantEnd("r", corebot.EndAnswered)
		if got := k.Transcript("a"); !slices.Equal(got, []string{"user: Kafka", "assistant: one"}) {
			t.Errorf("in play is %q", got)
		}
	})
}

// rowsOf are the tables in which a chat has rows, of those that have something begun.
func rowsOf(t *testing.T, k *apptest.Kit, chat string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.Dir, storage.FileName)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	const of = ` m JOIN lanes l ON l.id = m.lane_id WHERE l.chat = ?1 AND l.direction = 1`
	for _, c := range [][2]string{
		{"messages", `SELECT COUNT(*) FROM message_life` + of + ` AND "end" = ''`},
		{"approvals", `SELECT COUNT(*) FROM approvals a JOIN message_life` + of + ` AND a.life_id = m.id`},
		{"waits", `SELECT COUNT(*) FROM waits a JOIN message_life` + of + ` AND a.life_id = m.id`},
		{"jobs", `SELECT COUNT(*) FROM jobs a JOIN message_life` + of + ` AND a.life_id = m.id`},
		{"drafts", `SELECT COUNT(*) FROM drafts WHERE chat = ?1`},
		{"rules", `SELECT COUNT(*) FROM approval_rules WHERE chat = ?1`},
	} {
		n := 0
		if err := db.QueryRow(c[1], chat).Scan(&n); err != nil {
			t.Fatal(c[0], err)
		}
		if n > 0 {
			all = append(all, c[0])
		}
	}
	return all
}

// begun is a chat "a" in which something was said, and then something has begun.
type begun struct {
	counter
	has []string // what rowsOf finds
	end func()   // ends it: the tool of an approval runs
	run int32    // how often it has run then
}

func approvalBegun(t *testing.T, answers time.Duration, has ...string) begun {
	model := apptest.Script(append([]apptest.Reply{apptest.Text("one")}, append(hijacked()[:2],
		slices.Repeat([]apptest.Reply{apptest.Text("on")}, 9)...)...)...)
	o := apptest.Options{Model: model}
	if answers > 0 {
		o.Box = after(answers)
	}
	c := newCounter(t, o)
	c.SayAs("root", "a", "1", "Kafka")
	pass(time.Second)
	c.SayAs("root", "a", "2", "read the page")
	pass(2 * time.Minute)
	return begun{c, has, func() {
		c.SayAs("root", "a", "yes", "/approve 1")
		c.SayAs("root", "a", "yes", "/approve 1")
		pass(time.Minute)
	}, 1}
}

var states = map[string]func(t *testing.T) begun{
	"a call that waits for an approval": func(t *testing.T) begun {
		return approvalBegun(t, 0, "messages", "approvals")
	},
	"an answer whose call waits for an approval": func(t *testing.T) begun {
		b := approvalBegun(t, time.Minute, "messages", "approvals")
		b.WantEnd("2", corebot.EndAnswered)
		return b
	},
	"messages that wait": func(t *testing.T) begun {
		model := apptest.Script(apptest.Text("one"), apptest.After(time.Minute, apptest.Text("two")),
			apptest.Text("three"))
		c := newCounter(t, apptest.Options{Model: model})
		for i, text := range []string{"Kafka", "Camus", "Sartre"} {
			c.SayAs("root", "a", string(rune('1'+i)), text)
			pass(time.Second)
		}
		return begun{c, []string{"messages"}, func() {}, 0}
	},
	"a wait": func(t *testing.T) begun {
		w := newWaiter(t, apptest.Options{}, apptest.Text("one"), waitsBy("wait.until", `{"duration":"1h"}`),
			apptest.Text("two"))
		w.SayAs("root", "a", "1", "Kafka")
		pass(time.Second)
		w.SayAs("root", "a", "2", "wait")
		pass(time.Second)
		return begun{w.counter, []string{"messages", "waits"}, func() {}, 0}
	},
	"a job": func(t *testing.T) begun {
		f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
			"delegate": {apptest.Asks(run("long"))},
			"long":     {apptest.After(time.Hour, apptest.Text("x"))},
		})
		f.runs = new(atomic.Int32)
		f.SayAs("root", "a", "1", "Kafka")
		pass(time.Second)
		f.SayAs("root", "a", "2", "delegate")
		pass(time.Second)
		return begun{f.counter, []string{"messages", "waits", "jobs"}, func() {}, 0}
	},
	"a draft": func(t *testing.T) begun {
		model := apptest.Script(apptest.Text("one"), apptest.After(time.Minute, apptest.Text("two")))
		c := newCounter(t, apptest.Options{Model: model})
		c.SayAs("root", "a", "1", "Kafka")
		pass(time.Second)
		c.SayAs("root", "a", "2", "Camus")
		pass(time.Second)
		must(t, storage.NewDrafts(c.DB).Put(t.Context(), corebot.Draft{
			Key: apptest.Key("a"), Answers: "2", Shown: "tw", Began: time.Now(),
		}))
		return begun{c, []string{"messages", "drafts"}, func() {}, 0}
	},
}

// A fork of a chat has what was said there, and nothing that has begun. All of that ends in the chat alone, once.
func TestAForkTakesNothingAlongThatHasBegun(t *testing.T) {
	for name, begin := range states {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := begin(t)
				before := b.Transcript("a")
				_, err := storage.NewSessions(b.DB).Fork(t.Context(), corebot.Fork{
					From: apptest.Key("a"), To: apptest.Key("fork"),
				})
				must(t, err)
				b.wantBegunInAAlone(t, "fork", before)
			})
		})
	}
}

// A link takes what was said along, and nothing that has begun there. Nothing is linked into a chat in which a message
// waits or runs: its answer would stand behind words that its turn was not shown.
func TestALinkTakesNothingAlongThatHasBegun(t *testing.T) {
	for name, begin := range states {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := begin(t)
				before := b.Transcript("a")
				b.SayAs("root", "other", "o", "/help")
				pass(time.Second)
				links := storage.NewLinks(b.DB)
				_, err := links.Put(t.Context(), apptest.Key("a"), apptest.Key("other"))
				must(t, err)
				_, err = links.Put(t.Context(), apptest.Key("other"), apptest.Key("a"))
				answered := b.Life("2").End == corebot.EndAnswered // without its call
				if !errors.Is(err, corebot.ErrInvalid) || strings.Contains(err.Error(), "waits or runs") == answered {
					t.Errorf("a link into the chat: %v", err)
				}
				b.wantBegunInAAlone(t, "other", before)
			})
		})
	}
}

// wantBegunInAAlone says that a copy of the chat a has what was said there, and that what has begun ends in a alone.
func (b begun) wantBegunInAAlone(t *testing.T, other string, before []string) {
	t.Helper()
	if got := b.Transcript(other); !slices.Equal(got, before) {
		t.Errorf("the copy has %q, want %q", got, before)
	}
	if got := rowsOf(t, b.Kit, "a"); !slices.Equal(got, b.has) {
		t.Errorf("in the chat there are %q, want %q", got, b.has)
	}
	if got := rowsOf(t, b.Kit, other); len(got) > 0 {
		t.Errorf("in the copy there are %q", got)
	}
	b.admin(t, "eve", apptest.Key(other)) // her role there decides nothing of the first chat
	b.SayAs("eve", other, "e", "/approve 1")
	pass(time.Second)
	if b.runs.Load() != 0 {
		t.Error("an admin of the copy has approved a call of the chat")
	}
	b.end()
	pass(2 * time.Hour)
	if got := b.runs.Load(); got != b.run {
		t.Errorf("the call ran %d times, want %d", got, b.run)
	}
	b.WantEnd("2", corebot.EndAnswered)
	if got := rowsOf(t, b.Kit, "a"); slices.Contains(got, "messages") {
		t.Errorf("in the chat there are still %q", got)
	}
	if got := b.Transcript(other); !slices.Equal(got, before) {
		t.Errorf("in the end the copy has %q, want %q", got, before)
	}
	for _, m := range b.Told("2") {
		if m.Key != apptest.Key("a") {
			t.Errorf("%s is told %q", m.Key, m.Text())
		}
	}
}
