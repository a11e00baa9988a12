package rootfs_test

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

func TestCleanHasOneSpellingForAFile(t *testing.T) {
	for in, want := range map[string]string{
		".": ".", "./": ".", "a": "a", "./a//b/./c/": "a/b/c", "a...b": "a...b", "...": "...", "naïve/ü": "naïve/ü",
		"chats/main:cli::a%20b": "chats/main:cli::a%20b",
	} {
		if got, err := rootfs.Clean(in); err != nil || got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestCleanRefusesWhatLeadsOutOrHidesSomething(t *testing.T) {
	for in, want := range map[string]error{
		"":                                       rootfs.ErrBadName,
		"/etc":                                   rootfs.ErrEscape,
		"..":                                     rootfs.ErrEscape,
		"a/../b":                                 rootfs.ErrEscape,
		"a/..":                                   rootfs.ErrEscape,
		"a\x00b":                                 rootfs.ErrBadName,
		"a\nb":                                   rootfs.ErrBadName,
		`a\b`:                                    rootfs.ErrBadName,
		"a\xffb":                                 rootfs.ErrBadName,
		"a\u200db":                               rootfs.ErrBadName,
		"a\ufe0fb":                               rootfs.ErrBadName,
		"a\u202eb":                               rootfs.ErrBadName,
		strings.Repeat("x", 256):                 rootfs.ErrBadName,
		strings.Repeat("x/", rootfs.MaxPath/2+1): rootfs.ErrBadName,
		strings.Repeat("x/", rootfs.MaxDepth) + "f": rootfs.ErrBadName,
		"d/.corebot-tmp-X":                          rootfs.ErrBadName,
		"d/.COREBOT-tmp-X":                          rootfs.ErrBadName,
	} {
		got, err := rootfs.Clean(in)
		requireIs(t, in, err, want)
		if got != "" {
			t.Errorf("Clean(%q) returned %q beside its error", in, got)
		}
	}
}

func FuzzCleanNeverLeadsOut(f *testing.F) {
	for _, s := range []string{
		"a/b", "./../x", "//", "MEMORY/./x", "a\x00", "\u212a/ſ", "...",
		strings.Repeat("a/", 3000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := rootfs.Clean(in)
		if err != nil {
			return
		}
		if path.IsAbs(got) || got != path.Clean(got) || got == ".." || strings.HasPrefix(got, "../") ||
			!utf8.ValidString(got) {
			t.Errorf("Clean(%q) = %q", in, got)
		}
		if again, err := rootfs.Clean(got); err != nil || again != got {
			t.Errorf("Clean is not stable: %q, then %q, %v", got, again, err)
		}
		if f := rootfs.Fold(got); rootfs.Fold(f) != f || !strings.EqualFold(f, got) {
			t.Errorf("Fold(%q) = %q is not a fold", got, f)
		}
	})
}

func TestFoldTakesLookAlikesOfCaseForOne(t *testing.T) {
	for _, s := range []string{"SKILLS", "sKiLLs", "ſkills", "s\u212aills"} {
		if rootfs.Fold(s) != "skills" {
			t.Errorf("Fold(%q) = %q", s, rootfs.Fold(s))
		}
	}
}

func TestWithinEndsAtNameBoundaries(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"memory", "memory", true},
		{"MEMORY/x", "memory", true},
		{"memoryx", "memory", false},
		{"a/memory", "memory", false},
		{"x", ".", true},
	} {
		if got := rootfs.Within(c.path, c.dir); got != c.want {
			t.Errorf("Within(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func key(chat string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "webhook", Chat: chat}
}

func TestAUsualChatHasItsKeyAsDirectory(t *testing.T) {
	if got, want := rootfs.ChatDir(key("room-1")), "chats/main:webhook::room-1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := rootfs.ChatDir(key("a b")), "chats/main:webhook::a%20b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChatDirectoriesNeverCollideAlsoWhereCaseIsFolded(t *testing.T) {
	long := strings.Repeat("é", corebot.MaxKeyField/2)
	chats := []string{
		"alice", "Alice", "ALICE", "alice~", "a", "A", "%41", "a ", long, long[:len(long)-2],
		strings.ToUpper(long),
	}
	seen := map[string]string{}
	for _, chat := range chats {
		dir := rootfs.ChatDir(key(chat))
		if clean, err := rootfs.Clean(dir); err != nil || clean != dir {
			t.Errorf("%q is no clean path: %v", dir, err)
		}
		if other, ok := seen[rootfs.Fold(dir)]; ok {
			t.Errorf("%q and %q share %s", chat, other, dir)
		}
		seen[rootfs.Fold(dir)] = chat
	}
}

// A child turn acts in the conversation of its parent: there it has the same skills. Those of two conversations never
// have one directory.
func TestAChildTurnHasTheSkillsOfItsConversation(t *testing.T) {
	chat := corebot.Key{Agent: "main", Channel: "webhook", Account: "work", Chat: "room"}
	thread, child, grandchild, other := chat, chat, chat, chat
	thread.Thread = "7"
	child.Channel, child.Account, child.Thread = corebot.JobChannel, "webhook:work", "1:"
	grandchild.Channel, grandchild.Account, grandchild.Thread = corebot.JobChannel, "webhook:work", "2:7"
	other.Chat = "other"
	otherChild := child
	otherChild.Chat = "other"
	for _, k := range []corebot.Key{thread, child, grandchild} {
		if got, want := rootfs.ScopedSkills(k), rootfs.ScopedSkills(chat); got != want {
			t.Errorf("%s has the skills in %s, its conversation those in %s", k, got, want)
		}
	}
	if rootfs.ScopedSkills(other) != rootfs.ScopedSkills(otherChild) ||
		rootfs.ScopedSkills(other) == rootfs.ScopedSkills(chat) {
		t.Error("another conversation and its child turn have the wrong skills")
	}
}
