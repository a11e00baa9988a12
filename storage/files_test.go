package storage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func sum(bytes, entries int64) corebot.FileSum {
	return corebot.FileSum{Bytes: bytes, Entries: entries}
}

func sender(id string) corebot.Principal {
	return corebot.Principal{Channel: "test", Account: "bot", ID: id}
}

func wantCharged(t *testing.T, f *FileCharges, who corebot.Principal, chat string, want corebot.FileSum) {
	t.Helper()
	if got, err := f.Sum(t.Context(), who, testKey(chat)); err != nil || got != want {
		t.Errorf("%s is charged with %+v, %v; want %+v", who, got, err, want)
	}
}

func TestASenderIsChargedWithTheGrowthOfAllHisChatsAndADeletionGivesItBack(t *testing.T) {
	dir := t.TempDir()
	earlier(t, dir, func(db *DB) {
		f := NewFileCharges(db)
		must(t, f.Charge(t.Context(), testKey("a"), sender("ann"), sum(100, 1), sum(150, 3)))
		must(t, f.Charge(t.Context(), testKey("b"), sender("ann"), sum(0, 0), sum(7, 1)))
		must(t, f.Charge(t.Context(), testKey("a"), sender("bob"), sum(150, 3), sum(170, 4)))
	})
	db := openTest(t, dir) // who made a folder grow is known after a restart
	f := NewFileCharges(db)
	wantCharged(t, f, sender("ann"), "a", sum(57, 3))
	wantCharged(t, f, sender("bob"), "a", sum(20, 1))
	chats, err := f.Chats(t.Context(), sender("ann"), 10)
	if want := []corebot.Key{testKey("a"), testKey("b")}; err != nil || !slices.Equal(chats, want) {
		t.Errorf("files are in %v, %v", chats, err)
	}
	must(t, f.Charge(t.Context(), testKey("a"), sender("ann"), sum(170, 4), sum(140, 2))) // she deletes
	wantCharged(t, f, sender("ann"), "a", sum(27, 1))
	wantCharged(t, f, sender("bob"), "a", sum(20, 1))
	// an operator removed everything
	must(t, f.Charge(t.Context(), testKey("a"), corebot.Principal{}, sum(0, 0), sum(0, 0)))
	wantCharged(t, f, sender("ann"), "a", sum(7, 1))
	wantCharged(t, f, sender("bob"), "a", sum(0, 0))
	if rows := sideQuery(t, db.path, "SELECT chat FROM file_charges"); len(rows) != 1 {
		t.Errorf("the rows are %v, want one", rows)
	}
}

func TestWhatIsFoundInAFolderIsNobodysAndAChatPaysForSendersWithoutAnID(t *testing.T) {
	f := NewFileCharges(openTest(t, t.TempDir()))
	must(t, f.Charge(t.Context(), testKey("a"), sender(""), sum(1_000, 10), sum(1_010, 11)))
	must(t, f.Charge(t.Context(), testKey("b"), sender(""), sum(0, 0), sum(5, 1)))
	wantCharged(t, f, sender(""), "a", sum(10, 1))
	wantCharged(t, f, sender(""), "b", sum(5, 1))
	// what others have goes, the largest first
	must(t, f.Charge(t.Context(), testKey("a"), sender("ann"), sum(1_010, 11), sum(5, 1)))
	wantCharged(t, f, sender(""), "a", sum(5, 1))
	wantCharged(t, f, sender("ann"), "a", sum(0, 0))
}

func TestThoseWhoseFilesTakeMostAreListed(t *testing.T) {
	f := NewFileCharges(openTest(t, t.TempDir()))
	for chat, bytes := range map[string]int64{"a": 60, "b": 50, "c": 9} {
		must(t, f.Charge(t.Context(), testKey(chat), sender("ann"), sum(0, 0), sum(bytes, 1)))
		must(t, f.Charge(t.Context(), testKey("x"+chat), sender(""), sum(500, 5), sum(500+bytes, 6)))
	}
	must(t, f.Charge(t.Context(), testKey("d"), sender("bob"), sum(0, 0), sum(1, 9)))
	alone := testKey("xa")
	want := []corebot.FileCharge{
		{Principal: sender("ann"), FileSum: sum(119, 3), Chats: 3},
		{Principal: sender(""), Chat: alone.String(), FileSum: sum(60, 1), Chats: 1},
		{Principal: sender("bob"), FileSum: sum(1, 9), Chats: 1},
	}
	if got, err := f.Most(t.Context(), sum(60, 9), 10); err != nil || !slices.Equal(got, want) {
		t.Errorf("listed %+v, %v; want %+v", got, err, want)
	}
	if got, err := f.Most(t.Context(), sum(0, 9), 10); err != nil || len(got) != 1 {
		t.Errorf("by entries alone %+v, %v", got, err)
	}
}

func TestTheNewestChangesAreKeptWithinTheirLimits(t *testing.T) {
	db := openTest(t, t.TempDir())
	v := NewVersions(db, corebot.VersionLimits{PerChat: 3, Bytes: 100})
	here, there := corebot.Key{Agent: "main", Channel: "c", Chat: "here"}, corebot.Key{
		Agent: "main", Channel: "c",
		Chat: "there",
	}
	keep := func(k corebot.Key, message, path string, size int) int64 {
		t.Helper()
		id, err := v.Keep(t.Context(), corebot.FileVersion{
			Key: k, MessageID: message, Principal: corebot.Principal{Channel: "c"}, Path: path, Before: "sha256:1",
			After: corebot.NoFile, Data: make([]byte, size), Mode: 0o640, Lost: size == 0,
		})
		must(t, err)
		return id
	}
	claim := func(k corebot.Key, life int64) (paths []string) {
		t.Helper()
		all, err := v.Claim(t.Context(), k, life)
		must(t, err)
		for _, c := range all {
			if c.Mode != 0o640 || c.Lost || c.Principal.Channel != "c" {
				t.Errorf("it came back as %+v", c)
			}
			paths = append(paths, c.MessageID+" "+c.Path)
		}
		return paths
	}
	for i, path := range []string{"a", "b", "c", "d"} {
		keep(here, fmt.Sprint("m", i/2), path, 10)
	}
	id := keep(there, "m1", "e", 10)
	if data, err := v.Data(t.Context(), id); err != nil || len(data) != 10 {
		t.Errorf("the data is %d bytes: %v", len(data), err)
	}
	for range 2 { // an /undo that is cut short gets the same
		if got := claim(here, 7); !slices.Equal(got, []string{"m1 d", "m1 c"}) {
			t.Errorf("claimed %q", got)
		}
	}
	if got := claim(here, 8); !slices.Equal(got, []string{"m0 b"}) {
		t.Errorf("the next has %q", got)
	}
	must(t, v.Release(t.Context(), here, 7))
	if got := claim(here, 9); !slices.Equal(got, []string{"m1 d", "m1 c"}) {
		t.Errorf("released: %q", got)
	}
	must(t, v.Drop(t.Context(), id))
	if got := claim(there, 10); got != nil {
		t.Errorf("dropped: %q", got)
	}
	keep(there, "m2", "large", 99)
	if count, bytes, err := v.Usage(t.Context()); err != nil || count != 0 && bytes > 100 {
		t.Errorf("%d changes have %d bytes: %v", count, bytes, err)
	}
	keep(there, "m3", "new", 10)
	if got := claim(there, 11); !slices.Equal(got, []string{"m3 new"}) {
		t.Errorf("after the oldest have made room: %q", got)
	}
}

func attached(chat, message, hash string, size int64) corebot.AttachedFile {
	return corebot.AttachedFile{Key: testKey(chat), MessageID: message, Hash: hash, Name: "a", Size: size}
}

func refer(t *testing.T, a *Attached, f corebot.AttachedFile) corebot.AttachedFile {
	t.Helper()
	f, err := a.Refer(t.Context(), f, 100)
	must(t, err)
	return f
}

func TestAChatPaysForEachContentOnceAndReadsItsOwnOnly(t *testing.T) {
	a := NewAttached(openTest(t, t.TempDir()))
	for _, message := range []string{"1", "2", "3"} {
		if f := refer(t, a, attached("a", message, "x", 60)); f.Fault != "" {
			t.Errorf("message %s: %s", message, f.Fault)
		}
	}
	if f := refer(t, a, attached("a", "4", "y", 41)); f.Fault == "" {
		t.Error("the chat has no limit")
	}
	if f, err := a.File(t.Context(), testKey("a"), "x"); err != nil || f.MessageID != "3" || f.Size != 60 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := a.File(t.Context(), testKey("b"), "x"); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("another chat reads it: %v", err)
	}
	if all, err := a.OfChat(t.Context(), testKey("a"), "", 9); err != nil || fmt.Sprint(all) != "[x y]" {
		t.Errorf("the chat refers to %v, %v", all, err)
	}
}

func TestAReferenceGoesWithItsMessageAndItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		a := NewAttached(db)
		publishTest(t, db, "a", "waits")
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			chat, err := chatTx(t, testKey("a"))
			if err != nil {
				return err
			}
			_, err = t.exec(appendHistory, chat.ID, 1, 1, 0, "user", "", "", "hello", "", "", "", "", false, "said",
				t.now)
			return err
		}))
		for _, message := range []string{"waits", "said", "never published"} {
			refer(t, a, attached("a", message, message, 1))
		}
		r, err := NewRetention(db, RetentionOptions{Messages: 24 * time.Hour})
		must(t, err)
		left := func() (all []string) {
			for _, message := range []string{"waits", "said", "never published"} {
				if referred, err := a.Referred(t.Context(), message); referred && err == nil {
					all = append(all, message)
				}
			}
			return all
		}
		must(t, r.Sweep(t.Context()))
		if got := left(); len(got) != 3 {
			t.Fatalf("at once only %v are left", got)
		}
		time.Sleep(2 * time.Hour)
		must(t, r.Sweep(t.Context()))
		if got := left(); fmt.Sprint(got) != "[waits said]" {
			t.Errorf("after two hours %v are left", got)
		}
	})
}

func TestAMessageLeavesSoManyReferencesAndNoMore(t *testing.T) {
	dir := t.TempDir()
	a := NewAttached(openTest(t, dir))
	for i := range maxFilesOfMessage + 5 {
		f := attached("a", "1", "x", 1)
		f.Name = fmt.Sprint(i)
		if f = refer(t, a, f); (f.Fault != "") != (i >= maxFilesOfMessage) {
			t.Errorf("file %d: %q", i, f.Fault)
		}
	}
	again := attached("a", "1", "x", 1)
	if again.Name = "0"; refer(t, a, again).Fault != "" {
		t.Error("the same file again is one too many")
	}
	if n := count(t, dir, "attached_files"); n != maxFilesOfMessage {
		t.Errorf("there are %d rows", n)
	}
}

func TestTheNewestChangesOfAChatTellWhoHasWrittenItsFiles(t *testing.T) {
	db := openTest(t, t.TempDir())
	v := NewVersions(db, corebot.VersionLimits{PerChat: 3, Bytes: 100})
	here := corebot.Key{Agent: "main", Channel: "c", Chat: "here"}
	ann := corebot.Principal{Channel: "c", ID: "ann"}
	keep := func(k corebot.Key, path string, who corebot.Principal, is corebot.Authored) {
		t.Helper()
		_, err := v.Keep(t.Context(), corebot.FileVersion{
			Key: k, MessageID: "of " + path, Principal: who, Path: path, From: "from " + path, After: "after " + path,
			Authored: is,
		})
		must(t, err)
	}
	for _, k := range []corebot.Key{
		{Agent: "other", Channel: "c", Chat: "here"},
		{Agent: "main", Channel: "c", Chat: "there"},
		{Agent: "main", Channel: "c", Chat: "here", Thread: "1"},
		{Agent: "main", Channel: "c", Account: "1", Chat: "here"},
	} {
		keep(k, "elsewhere", ann, corebot.AuthoredContent)
	}
	keep(here, "trimmed", ann, corebot.AuthoredContent)
	keep(here, "a", ann, corebot.AuthoredContent)
	keep(here, "b", corebot.Principal{Channel: "c"}, corebot.AuthoredPath)
	keep(here, "undone", ann, corebot.AuthoredNothing)
	_, err := v.Claim(t.Context(), here, 7)
	must(t, err)
	got, err := v.Newest(t.Context(), here)
	must(t, err)
	want := []corebot.FileVersion{
		{
			Key: here, Principal: corebot.Principal{Channel: "c"}, Path: "b", From: "from b", After: "after b",
			Authored: 1,
		},
		{Key: here, Principal: ann, Path: "a", From: "from a", After: "after a", Authored: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("they are\n%+v, want\n%+v", got, want)
	}
}
