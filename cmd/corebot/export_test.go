package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

// fillChat leaves in a chat a message, a fact of each scope, a task, a file of a message, memory, and what the audit
// trail has of it. Each has the mark in it.
func fillChat(ctx context.Context, db *storage.DB, home string, k corebot.Key, mark string) error {
	who := corebot.Principal{Channel: k.Channel, Account: k.Account, ID: mark}
	fact := func(scope corebot.FactScope, object string) corebot.Fact {
		return corebot.Fact{
			Key: k, Scope: scope, Subject: mark, Relation: "lives in", Object: object + mark, Sender: who,
			MessageID: "m1", Taint: "a page of " + mark, At: time.Now(), Replaces: true,
		}
	}
	refs := storage.NewAttached(db)
	files := filestore.New(app.FilesDir(home), refs, filestore.Options{FileBytes: 1e6, ChatBytes: 1e6, TotalBytes: 1e6})
	part := corebot.Part{Type: corebot.PartFile, Name: "photo.txt"}
	part, _, err := files.Keep(ctx, k, "m1", part, strings.NewReader("bytes of "+mark))
	if err != nil {
		return err
	}
	gone := corebot.Part{Type: corebot.PartFile, Name: "forgotten " + mark, Hash: strings.Repeat("0", 64)}
	published, err := storage.NewQueue(db).Publish(ctx, []corebot.Message{{
		Key: k, ID: "m1", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Sender: who,
		Parts: append(corebot.TextPart("said "+mark), part),
	}}, corebot.Limits{})
	if err == nil {
		err = published[0].Err
	}
	if err != nil {
		return err
	}
	claimed, err := storage.NewQueue(db).Claim(ctx, corebot.InboundPool, 1,
		corebot.ClaimOptions{Lease: time.Minute})
	if err != nil || len(claimed) != 1 {
		return fmt.Errorf("claimed are %d: %w", len(claimed), err)
	}
	if err := storage.NewLedger(db).Commit(ctx, claimed[0], corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerUser, Sender: who, At: time.Now(), MessageID: "m1",
			Parts: append(corebot.TextPart("said "+mark), part, gone),
		}},
	}); err != nil {
		return err
	}
	_, err = storage.NewTasks(db).Create(ctx, corebot.Task{
		Name: mark, Key: k, Schedule: corebot.Schedule{Kind: corebot.TaskInterval, Spec: "1h", TimeZone: "UTC"},
		Prompt: mark, Creator: who, Context: corebot.TaskInChat, NextRun: time.Now().Add(time.Hour),
		State: corebot.TaskActive,
	}, corebot.TaskLimits{})
	err = errors.Join(err, storage.NewChats(db).Register(ctx, k, true, mark))
	for _, f := range []corebot.Fact{
		fact(corebot.FactsOfChat, "Lima"), fact(corebot.FactsOfChat, "Rome"),
		fact(corebot.FactsOfChannel, "Oslo"), fact(corebot.FactsOfAgent, "Bern"),
	} {
		err = errors.Join(err, storage.NewFacts(db).Learn(ctx, f))
	}
	dir := filepath.Join(home, "workspace", filepath.FromSlash(rootfs.ChatDir(k)))
	if k.Agent != corebot.DefaultAgent {
		dir = filepath.Join(home, "agents", k.Agent, "workspace", filepath.FromSlash(rootfs.ChatDir(k)))
	}
	return errors.Join(err, os.MkdirAll(filepath.Join(dir, "a\xff"), 0o700),
		os.WriteFile(filepath.Join(dir, "MEMORY.md"), []byte("likes "+mark+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "a\xff", "b\nc"), []byte("odd "+mark), 0o600))
}

// TestAnExportHasAllOfItsChatAndNothingOfAnother: ids of other chats collide with those of the chat, one as another
// account has it, one as it is spelled, one as a path has it.
func TestAnExportHasAllOfItsChatAndNothingOfAnother(t *testing.T) {
	long.Only(t, "TestAnExportNamesFilesThatAreMissing")
	t.Parallel()
	home, long := t.TempDir(), strings.Repeat("long", 40)
	chat := corebot.Key{Agent: "main", Channel: "webhook", Account: "a", Chat: "zoo"}
	keys := []corebot.Key{
		chat,
		{Agent: "main", Channel: "webhook", Account: "b", Chat: "zoo"},
		{Agent: "other", Channel: "webhook", Account: "a", Chat: "zoo"},
		{Agent: "main", Channel: "telegram", Account: "a", Chat: "zoo"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: "zoo", Thread: "1"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: "zoo:1"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: "Zoo"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: "zo%6F"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: "../zoo"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: long + "1"},
		{Agent: "main", Channel: "webhook", Account: "a", Chat: long + "2"},
	}
	mark := func(i int) string { return fmt.Sprintf("mark%dx", i) }
	if err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		for i, k := range keys {
			if err := fillChat(t.Context(), db, home, k, mark(i)); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		dir := filepath.Join(t.TempDir(), "out")
		out, err := inside(t.Context(), home, "chats", "export", k.String(), "--to", dir)
		if err != nil || !strings.Contains(out, ": 1 entry, 4 facts, 1 task, ") ||
			!strings.Contains(out, " 2 files, 1 attachment\n1 file of messages is missing here") {
			t.Fatalf("%s: %v\n%s", k, err, out)
		}
		all := contentsOf(t, dir)
		for file, text := range all {
			if !strings.Contains(text, mark(i)) {
				t.Errorf("%s: %q has nothing of the chat: %s", k, file, text)
			}
			for j := range keys {
				if j != i && strings.Contains(text, mark(j)) {
					t.Errorf("the export of %s has in %q what belongs to %s:\n%s", k, file, keys[j], text)
				}
			}
		}
		want := []string{
			"attachments.jsonl", "attachments/1-photo.txt", "audit.jsonl", "chat.json", "files/MEMORY.md",
			"files/a\xff/b\nc", "history.jsonl", "memory.json", "tasks.jsonl",
		}
		if len(all) != len(want) {
			t.Errorf("%s: there are %d files", k, len(all))
		}
		for _, file := range want {
			if all[file] == "" {
				t.Errorf("%s: %q is missing", k, file)
			}
		}
		wantFacts(t, k, all["memory.json"], mark(i))
	}
}

func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// wantFacts: each fact says who said it, where, what others had a hand in, and what superseded it.
func wantFacts(t *testing.T, k corebot.Key, text, mark string) {
	t.Helper()
	var memory struct {
		Page struct {
			Chat   string
			Pieces []struct{ Text string }
		}
		Facts []struct {
			ID, SupersededBy                       int64
			ChatID, Scope, Object, SenderID, Taint string
			MessageID                              string
			At                                     time.Time
		}
	}
	if err := json.Unmarshal([]byte(text), &memory); err != nil {
		t.Fatalf("%s: %v in %s", k, err, text)
	}
	if p := memory.Page; p.Chat != k.String() || len(p.Pieces) != 1 || p.Pieces[0].Text != "likes "+mark+"\n" {
		t.Errorf("%s: the page is %+v", k, p)
	}
	var lima, rome int64
	var scopes []string
	for _, f := range memory.Facts {
		if f.ChatID != k.String() || !strings.HasSuffix(f.SenderID, mark) || f.MessageID != "m1" ||
			f.Taint != "a page of "+mark || f.At.IsZero() {
			t.Errorf("%s: the fact is %+v", k, f)
		}
		scopes = append(scopes, f.Scope)
		switch f.Object {
		case "Lima" + mark:
			lima = f.SupersededBy
		case "Rome" + mark:
			rome = f.ID
		}
	}
	if slices.Sort(scopes); lima == 0 || lima != rome || strings.Join(scopes, " ") != "agent channel chat chat" {
		t.Errorf("%s: the facts are %s", k, text)
	}
}

// TestAnExportNamesFilesThatAreMissing: one lost its bytes, one has others, and of one only the history knows.
func TestAnExportNamesFilesThatAreMissing(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "out")
	k := corebot.Key{Agent: "main", Channel: "webhook", Account: "a", Chat: "zoo"}
	var lost []string
	if err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		files := filestore.New(app.FilesDir(home), storage.NewAttached(db),
			filestore.Options{FileBytes: 1e6, ChatBytes: 1e6, TotalBytes: 1e6})
		for _, name := range []string{"lost.txt", "damaged.txt", "../../etc/passwd"} {
			p, _, err := files.Keep(t.Context(), k, "m0", corebot.Part{Type: corebot.PartFile, Name: name},
				strings.NewReader(name))
			if err != nil {
				return err
			}
			lost = append(lost, filepath.Join(app.FilesDir(home), p.Hash[:2], p.Hash))
		}
		return fillChat(t.Context(), db, home, k, "mark")
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(lost[0]), os.WriteFile(lost[1], []byte("changed.txt"), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := inside(t.Context(), home, "chats", "export", k.String(), "--to", dir)
	if err != nil || !strings.Contains(out, "2 attachments\n3 files of messages are missing here") {
		t.Fatalf("%v\n%s", err, out)
	}
	all := contentsOf(t, dir)
	got := map[string]attachment{}
	for line := range bytes.Lines([]byte(all["attachments.jsonl"])) {
		var a attachment
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		got[a.Name] = a
		if a.File != "" && !strings.HasSuffix(a.File, "-"+a.Name) || (a.File == "") != (all[a.File] == "") {
			t.Errorf("it is %+v: %q", a, all[a.File])
		}
	}
	for name, missing := range map[string]string{
		"lost.txt": "is missing", "damaged.txt": "is damaged", "passwd": "", "photo.txt": "",
		"forgotten mark": "is not kept in this chat",
	} {
		a, there := got[name]
		if !there || !strings.Contains(a.Missing, missing) || (missing == "") != (a.Missing == "") ||
			(a.File == "") != (missing != "") {
			t.Errorf("%s is %+v", name, a)
		}
	}
	if len(got) != 5 {
		t.Errorf("there are %d: %s", len(got), all["attachments.jsonl"])
	}
}

// TestKilledDuringAnExportThereIsAWholeOneOrNone, and the next one to the same place deletes what is left.
func TestKilledDuringAnExportThereIsAWholeOneOrNone(t *testing.T) {
	long.Only(t, "TestAnExportNamesFilesThatAreMissing")
	t.Parallel()
	c := twoChats(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	export := []string{"chats", "export", "gone", "--to", dir}
	c.dies("dirtree.made", export...)
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 1 || left[0].Name() != ".out.part" {
		t.Fatalf("left are %v: %v", left, err)
	}
	c.dies("dirtree.placed", export...)
	if all := contentsOf(t, dir); !strings.Contains(all["history.jsonl"], "wombat") ||
		!strings.HasSuffix(all["memory.json"], "]}\n") {
		t.Errorf("it is not whole: %v", all)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Errorf("left are %v: %v", left, err)
	}
}

// TestADeletionTakesFoldersWithWhateverProgramsHaveMadeThere: a name that is no UTF-8, one with a newline, and links
// out of the folder. Another chat, and what the links name, stay.
func TestADeletionTakesFoldersWithWhateverProgramsHaveMadeThere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	gone := corebot.Key{Agent: "main", Channel: "webhook", Account: "a", Chat: "zoo"}
	stays := corebot.Key{Agent: "main", Channel: "webhook", Account: "b", Chat: "zoo"}
	if err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		return errors.Join(fillChat(t.Context(), db, home, gone, "wombat"),
			fillChat(t.Context(), db, home, stays, "quokka"))
	}); err != nil {
		t.Fatal(err)
	}
	workspace := filepath.Join(home, "workspace")
	theirs, folder := filepath.Join(workspace, rootfs.ChatDir(stays)), filepath.Join(workspace, rootfs.ChatDir(gone))
	if err := errors.Join(os.Symlink(theirs, filepath.Join(folder, "out")),
		os.Symlink("../../..", filepath.Join(folder, "a\xff", "up"))); err != nil {
		t.Fatal(err)
	}
	want := contentsOf(t, theirs)
	out, err := inside(t.Context(), home, "chats", "delete", gone.String())
	if err != nil || !strings.Contains(out, "     5  files\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	if left := filesWith(t, home, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if got := contentsOf(t, theirs); !maps.Equal(got, want) {
		t.Errorf("the other chat has %q", got)
	}
}
