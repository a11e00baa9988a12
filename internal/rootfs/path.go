package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

const (
	MaxPath = 4096 // bytes of a path
	maxName = 255  // bytes of one name: what common file systems hold

	// MaxDepth is how many names a path has at most. Each costs system calls, and one that is made a sync.
	MaxDepth = 32
)

// tempPrefix marks a file that is being written. Nobody else may use such a name, so that a listing can leave it out
// and a sweep can take it away.
const tempPrefix = ".corebot-tmp-"

// Clean is the one spelling of a path: relative, slashes between names, no empty names and no ".". The root itself is
// ".". It is a pure function, so that who judges a path and who opens it mean the same file. Refused are [ErrEscape]:
// absolute paths and ".."; [ErrBadName]: backslashes, control and invisible characters, invalid UTF-8, names and paths
// that are too long or too deep, and the names of temporary files.
func Clean(path string) (string, error) {
	switch {
	case len(path) > MaxPath:
		return "", fmt.Errorf("a path of %d bytes %w: the limit is %d", len(path), ErrBadName, MaxPath)
	case !utf8.ValidString(path):
		return "", fmt.Errorf("%q %w: invalid UTF-8", path, ErrBadName)
	case path == "":
		return "", fmt.Errorf("an empty path %w", ErrBadName)
	case path[0] == '/':
		return "", fmt.Errorf("%q %w: paths are relative to it", path, ErrEscape)
	case strings.ContainsFunc(path, forbidden):
		return "", fmt.Errorf("%q %w: it has a backslash or an invisible character", path, ErrBadName)
	}
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "" || name == ".":
			continue
		case name == "..":
			return "", fmt.Errorf("%q %w", path, ErrEscape)
		case len(name) > maxName:
			return "", fmt.Errorf("a name of %d bytes %w: the limit is %d", len(name), ErrBadName, maxName)
		case strings.HasPrefix(Fold(name), tempPrefix):
			return "", fmt.Errorf("%q %w: such names are kept for files being written", path, ErrBadName)
		}
		names = append(names, name)
	}
	switch {
	case len(names) == 0:
		return ".", nil
	case len(names) > MaxDepth:
		return "", fmt.Errorf("a path of %d names %w: the limit is %d", len(names), ErrBadName, MaxDepth)
	}
	return strings.Join(names, "/"), nil
}

// forbidden are characters that some system reads as a separator, drops from names, or does not show: two spellings of
// one file would differ in them.
func forbidden(r rune) bool {
	return r == '\\' || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r)
}

// Fold maps all spellings that a case-insensitive file system takes for one name to one string. Paths are compared
// folded.
func Fold(path string) string {
	return strings.Map(func(r rune) rune {
		least := r // the smallest rune of the fold orbit stands for all: K, k and the Kelvin sign are one
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		if 'A' <= least && least <= 'Z' {
			return least + 'a' - 'A'
		}
		return least
	}, path)
}

// Within says whether a cleaned path is dir or below it, compared folded.
func Within(path, dir string) bool {
	path, dir = Fold(path), Fold(dir)
	return path == dir || dir == "." || strings.HasPrefix(path, dir+"/")
}

// ChatsDir holds one directory for every conversation.
const ChatsDir = "chats"

// maxPlainKey leaves room in a file name for what a program may add to a directory's name.
const maxPlainKey = 120

// ChatDir is the directory of one conversation: its memory, artifacts and files. It is ChatsDir/KEY with the key as
// [corebot.Key.String] spells it. A key that is long, or has upper case letters, becomes a readable beginning, "~" and
// a hash: some file systems fold case. No spelled key has a "~", so different keys never share a directory.
func ChatDir(k corebot.Key) string {
	plain := k.String()
	if len(plain) <= maxPlainKey && !hasUpperLetter(plain) {
		return ChatsDir + "/" + plain
	}
	sum := sha256.Sum256([]byte(plain))
	start := strings.ToLower(plain[:min(len(plain), maxPlainKey/2)])
	return ChatsDir + "/" + start + "~" + hex.EncodeToString(sum[:16])
}

// SkillsDir holds the skills of a workspace.
const SkillsDir = "skills"

// asideMark begins the names of directories that [Dirs] leaves aside. No skill has such a name.
const asideMark = "@"

// ScopedSkills is the directory of the skills that only one conversation has, or only the conversations of an account
// of a channel: see [corebot.Key.InChannel]. A thread has those of its conversation. The name is a hash of the key, so
// it tells nobody the key, and no two keys share it.
func ScopedSkills(k corebot.Key) string {
	k = k.Acts()
	k.Thread = ""
	sum := sha256.Sum256([]byte(k.String()))
	return SkillsDir + "/" + asideMark + hex.EncodeToString(sum[:16])
}

// InScopedSkills says whether a path is among the skills of some conversation, or of some account.
func InScopedSkills(path string) bool {
	below, is := strings.CutPrefix(Fold(path), SkillsDir+"/")
	return is && strings.HasPrefix(below, asideMark)
}

// FilesDir is where the programs of a conversation work, in its own directory.
func FilesDir(k corebot.Key) string { return ChatDir(k) + "/files" }

// hasUpperLetter looks past the escapes of a spelled key, which are always upper case.
func hasUpperLetter(plain string) bool {
	for i := 0; i < len(plain); i++ {
		switch c := plain[i]; {
		case c == '%':
			i += 2
		case 'A' <= c && c <= 'Z':
			return true
		}
	}
	return false
}
