package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/channels/mail/mailtest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/slack/slacktest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

// threaded is a network with a thread, in which somebody talks.
type threaded struct {
	settings string
	say      func(text string)
	inside   func() []string // what Corebot shows in the thread
	outside  func() []string // and elsewhere
}

// threadedNetworks are the networks with threads, with a platform each.
func threadedNetworks(t *testing.T) map[string]threaded {
	return map[string]threaded{
		"telegram": telegramTopic(t), "discord": discordThread(t), "slack": slackThread(t), "matrix": matrixThread(t),
		"mail": mailThread(t),
	}
}

// content has the platform close at the end, and its complaints fail the test.
func content(t *testing.T, closes func(), complaints func() []string) {
	t.Cleanup(func() {
		closes()
		for _, c := range complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
}

func telegramTopic(t *testing.T) threaded {
	s := telegramtest.New()
	content(t, s.Close, s.Complaints)
	group := telegramtest.Chat{ID: -1001, Type: "supergroup", Title: "All", IsForum: true}
	shown := func(in bool) (texts []string) {
		for _, m := range s.Shown(group.ID) {
			if (m.Thread == 7) == in {
				texts = append(texts, m.Text)
			}
		}
		return texts
	}
	return threaded{
		fmt.Sprintf("{token: %q, api_url: %q, access: open, groups: all}", telegramtest.Token, s.URL()),
		func(text string) { s.Say(telegramtest.Said{Chat: group, Thread: 7, Text: text}) },
		func() []string { return shown(true) }, func() []string { return shown(false) },
	}
}

func discordThread(t *testing.T) threaded {
	s := discordtest.New()
	content(t, s.Close, s.Complaints)
	const thread = "600000000000000001"
	s.Open(thread, discordtest.Thread, discordtest.Room)
	return threaded{
		fmt.Sprintf("{token: %q, api_url: %q, access: open, groups: all}", discordtest.Token, s.URL()),
		func(text string) { s.Say(discordtest.Said{Channel: thread, From: discordtest.Ann, Text: text}) },
		func() []string { return s.Texts(thread) },
		func() []string {
			return append(s.Texts(discordtest.Room), s.Texts(discordtest.DirectOf(discordtest.Ann))...)
		},
	}
}

func slackThread(t *testing.T) threaded {
	s := slacktest.New()
	content(t, s.Close, s.Complaints)
	thread := s.Say(slacktest.Said{Channel: slacktest.Room, Text: "the beginning"})
	shown := func(in bool) (texts []string) {
		for _, m := range append(s.Shown(slacktest.Room), s.Shown(slacktest.Direct)...) {
			if (m.Thread == thread) == in {
				texts = append(texts, m.Text)
			}
		}
		return texts
	}
	return threaded{
		fmt.Sprintf("{token: %q, app_token: %q, api_url: %q, access: open, groups: all}", slacktest.Token,
			slacktest.AppToken, s.URL()),
		func(text string) { s.Say(slacktest.Said{Channel: slacktest.Room, Thread: thread, Text: text}) },
		func() []string { return shown(true) }, func() []string { return shown(false) },
	}
}

func matrixThread(t *testing.T) threaded {
	s := matrixtest.New()
	content(t, s.Close, s.Complaints)
	const room = "!room:test"
	s.Room(room, matrixtest.Ann, "@bob:test")
	root := s.Say(matrixtest.Said{Room: room, Text: "the beginning"})
	shown := func(in bool) (texts []string) {
		for _, m := range s.Shown(room) {
			if (m.Thread == root) == in {
				texts = append(texts, m.Body)
			}
		}
		return texts
	}
	say := func(text string) {
		s.Say(matrixtest.Said{Room: room, Content: map[string]any{
			"msgtype": "m.text", "body": text, "m.relates_to": map[string]any{
				"rel_type": "m.thread", "event_id": root, "is_falling_back": true,
				"m.in_reply_to": map[string]any{"event_id": root},
			},
		}})
	}
	return threaded{
		fmt.Sprintf("{homeserver: %q, token: %q, access: open, groups: all}", s.URL(), matrixtest.Token),
		say, func() []string { return shown(true) }, func() []string { return shown(false) },
	}
}

func mailThread(t *testing.T) threaded {
	s := mailtest.New()
	t.Cleanup(s.Close)
	shown := func(in bool) (texts []string) {
		for _, sent := range s.Sent() {
			m, err := mail.ReadMessage(strings.NewReader(string(sent.Raw)))
			if err != nil {
				t.Error(err)
				continue
			}
			first, _, _ := strings.Cut(m.Header.Get("References"), " ")
			if at := first == "<root@people.test>" && m.Header.Get("Subject") == "Re: The build"; at == in {
				raw := strings.ReplaceAll(string(sent.Raw), "\r\n", "\n")
				texts = append(texts, strings.ReplaceAll(raw, "=\n", "")) // lines of quoted-printable are joined
			}
		}
		return texts
	}
	return threaded{
		fmt.Sprintf("{address: %q, password: %q, imap: %q, smtp: %q, authserv_id: %q, hourly: 1000, "+
			"access: open}", mailtest.Address, mailtest.Password, s.IMAP(), s.SMTP(), mailtest.AuthServID),
		func(text string) {
			s.Say(mailtest.Said{
				Subject: "Re: The build", Text: text,
				Headers: "In-Reply-To: <root@people.test>\nReferences: <root@people.test>\n",
			})
		},
		func() []string { return shown(true) }, func() []string { return shown(false) },
	}
}

// threadsHome is a home with all networks that have threads.
func threadsHome(t *testing.T, networks map[string]threaded) config.Config {
	t.Helper()
	home := t.TempDir()
	text := "llm: {offline: true}\nobservability: {enabled: false}\napprovals: {always: [fs.write]}\nchannels:\n"
	for kind, n := range networks {
		text += fmt.Sprintf("  %s:\n    main: %s\n", kind, n.settings)
	}
	if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := app.LoadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// while serves a home as long as something is done.
func while(t *testing.T, c config.Config, do func()) {
	t.Helper()
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	do()
}

// TestWhatIsAskedForInAThreadAnswersThere has each network do what answers later: a reminder, a task, a child turn in
// the background, a wait and an approval. Some of it comes after a restart, of which the channels remember nothing.
func TestWhatIsAskedForInAThreadAnswersThere(t *testing.T) {
	networks := threadedNetworks(t)
	c := threadsHome(t, networks)
	shows := func(words string) {
		t.Helper()
		for kind, n := range networks {
			has := func(text string) bool { return strings.Contains(text, words) }
			until(t, kind+" shows "+words, func() bool {
				if at := slices.IndexFunc(n.outside(), has); at >= 0 {
					t.Fatalf("%s shows %q outside of the thread", kind, n.outside()[at])
				}
				return slices.ContainsFunc(n.inside(), has)
			})
		}
	}
	say := func(text string) {
		for kind, n := range networks {
			n.say(strings.ReplaceAll(text, "KIND", kind))
		}
	}
	operator := func(does func(ctx context.Context, c control.Caller) error) {
		t.Helper()
		err := app.Change(t.Context(), c.Home, func(c control.Caller) error { return does(t.Context(), c) })
		if err != nil {
			t.Fatal(err)
		}
	}
	while(t, c, func() {
		for kind, n := range networks { // what is said before the first connection is not answered
			until(t, kind+" is connected", func() bool {
				n.say("/status")
				time.Sleep(50 * time.Millisecond)
				return len(n.inside()) > 0
			})
		}
		say("/remind 90m water-the-plants")
		shows("water-the-plants")
		say(`/tool tasks.schedule {"kind":"once","spec":"2099-12-24T18:00",` +
			`"prompt":"/tool fs.read {\"path\":\"of-the-task\"}"}`)
		shows("2099-12-24")
		say(`/tool agent.run {"prompt":"/tool fs.read {\"path\":\"of-the-child\"}","background":true}`)
		shows("of-the-child")
		say(`/tool wait.word {"for":"the-green-light"}`)
		shows("the-green-light")
	})
	while(t, c, func() {
		operator(wordsGiven)
		shows("it-is-green")
		operator(tasksRun)
		shows("of-the-task")
		say(`/tool fs.write {"path":"notes/KIND.md","content":"one"}`)
		shows("fs.write of any file")
	})
	while(t, c, func() {
		operator(callsApproved)
		shows("wrote 3 bytes")
	})
	for kind, n := range networks {
		if texts := n.outside(); len(texts) > 0 {
			t.Errorf("%s shows %q outside of the thread", kind, texts)
		}
	}
}

// tasksRun runs all tasks now, as an operator does.
func tasksRun(ctx context.Context, c control.Caller) error {
	tasks, err := operate.ListTasks.Call(ctx, c, operate.TaskQuery{})
	for _, row := range tasks.Rows {
		run := operate.TaskChange{IDs: []int64{row.ID}, Action: corebot.TaskRunNow}
		_, failed := operate.ChangeTask.Call(ctx, c, run)
		err = errors.Join(err, failed)
	}
	return err
}

// wordsGiven gives its word to each answer that waits.
func wordsGiven(ctx context.Context, c control.Caller) error {
	waits, err := operate.ListWaits.Call(ctx, c, operate.WaitQuery{})
	for _, row := range waits.Rows {
		_, failed := operate.GiveWord.Call(ctx, c, operate.NewWord{ID: row.ID, Text: "it-is-green"})
		err = errors.Join(err, failed)
	}
	return err
}

// callsApproved approves each call that waits.
func callsApproved(ctx context.Context, c control.Caller) error {
	calls, err := operate.ListApprovals.Call(ctx, c, operate.ApprovalQuery{})
	for _, row := range calls.Rows {
		_, failed := operate.ResolveApprovals.Call(ctx, c, operate.Resolution{
			IDs: []int64{row.ID}, State: corebot.ApprovalApproved,
		})
		err = errors.Join(err, failed)
	}
	return err
}
