package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// TestEveryFileIsItsOwnersAloneWhateverTheUmask plays a whole life with umask 0: a home is made, a daemon answers,
// tools write, a terminal talks, commands change things.
func TestEveryFileIsItsOwnersAloneWhateverTheUmask(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	script := "#!/bin/sh\numask 000\nexec '" + realProgram(t) + "' \"$@\"\n"
	if err := os.WriteFile(open, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &service{
		t: t, binary: open, home: filepath.Join(dir, "home"), addr: "127.0.0.1:0",
		env: []string{"COREBOT_TOOLS_MAX_OUTPUT_BYTES=200"},
	}
	s.output("init", "--webhook")
	requireClosed(t, s.home, 5)
	s.startAndWait()
	t.Cleanup(s.kill)
	s.findWebhook()
	s.output("admin", "grant", "webhook::ann")
	client, cursor := s.client(), ""
	for i, text := range []string{
		"hello", `/tool fs.write {"path":"notes/deep/a.txt","content":"` + strings.Repeat("long ", 100) + `"}`,
		`/tool fs.read {"path":"notes/deep/a.txt"}`,
		`/tool memory.write {"scope":"chat","content":"likes tea"}`,
		`/tool memory.write {"scope":"global","content":"for all"}`,
		`/tool fs.edit {"path":"notes/deep/a.txt","old":"long","new":"short","replaceAll":true}`,
	} {
		id := fmt.Sprint(i)
		if _, err := client.Post(t.Context(), load.Message{
			ID: id, ChatID: "room", Sender: "ann",
			Content: text,
		}); err != nil {
			t.Fatal(err)
		}
		replies, next, err := client.Replies(t.Context(), "room", cursor, 10*time.Second)
		if err != nil || len(replies) == 0 { // a notice can come before the answer
			t.Fatalf("%s: %v, %v", text, replies, err)
		}
		cursor = next
	}
	s.output("send", "--chat", "main", "--wait", "hello")
	requireClosed(t, s.home, 15)
	s.terminate()
	s.output("db", "vacuum")
	requireClosed(t, s.home, 15)
	for _, made := range []string{
		"notes/deep/a.txt", "chats/main:webhook::room/MEMORY.md",
		"chats/main:webhook::room/artifacts",
	} {
		if _, err := os.Stat(filepath.Join(s.home, "workspace", made)); err != nil {
			t.Errorf("the test is broken: %v", err)
		}
	}
}

// requireClosed: in a home of at least so many files and directories, each is 0600 or 0700.
func requireClosed(t *testing.T, home string, least int) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) { // a file of SQLite's that came and went
			return nil
		} else if err != nil {
			return err
		}
		n++
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
		return nil
	})
	if err != nil || n < least {
		t.Errorf("%d files in the home, %v", n, err)
	}
}
