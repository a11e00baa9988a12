package builtin_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// modelFile is what a file holds; nil: there is none.
type modelFile = *string

// TestAnySequenceOfWritesEditsAndReadsAgreesWithAMapOfTexts compares the tools with a map of strings.
func TestAnySequenceOfWritesEditsAndReadsAgreesWithAMapOfTexts(t *testing.T) {
	for seed := range long.Or(uint64(4), 20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			b := newBench(t)
			r := rand.New(rand.NewPCG(seed, 1))
			model := map[string]modelFile{}
			paths := []string{"a", "b.txt", "d/c", "d/ü 世.txt"}
			for range 60 {
				path := paths[r.IntN(len(paths))]
				switch r.IntN(4) {
				case 0:
					text := piece(r, 40)
					model[path] = &text
					b.wants(corebot.OutcomeSuccess, fmt.Sprintf("wrote %d bytes", len(text)), "fs.write",
						args{"path": path, "content": text})
				case 1, 2:
					a := args{"path": path, "old": piece(r, 2), "new": piece(r, 3), "replaceAll": r.IntN(2) == 0}
					model[path] = edited(b, model[path], a)
				case 3:
					readBack(b, path, model[path], r.Int64N(50), 1+r.Int64N(50))
				}
			}
			for path, want := range model {
				if want != nil {
					b.has(path, *want)
				}
			}
		})
	}
}

// piece is a short text of few letters, so that it is often found and often not unique.
func piece(r *rand.Rand, most int) string {
	letters := []string{"a", "b", "\n", "é", "世", "🙂"}
	var s strings.Builder
	for range r.IntN(most + 1) {
		s.WriteString(letters[r.IntN(len(letters))])
	}
	return s.String()
}

// edited makes an edit and gives what the file is to hold after it.
func edited(b bench, file modelFile, a args) modelFile {
	b.Helper()
	before, after := a["old"].(string), a["new"].(string)
	n := 0
	if file != nil && before != "" {
		for i := range *file { // places that overlap count too
			if strings.HasPrefix((*file)[i:], before) {
				n++
			}
		}
	}
	switch {
	case file == nil:
		b.wants(corebot.OutcomeError, "not exist", "fs.edit", a)
	case before == "", before == after, n == 0, n > 1 && a["replaceAll"] == false:
		b.wants(corebot.OutcomeError, "old", "fs.edit", a)
	default:
		text := strings.ReplaceAll(*file, before, after)
		b.wants(corebot.OutcomeSuccess, fmt.Sprintf("replaced %d", strings.Count(*file, before)), "fs.edit", a)
		return &text
	}
	return file
}

// readBack reads a piece of a file and compares it with the model.
func readBack(b bench, path string, file modelFile, offset, limit int64) {
	b.Helper()
	a := args{"path": path, "offset": offset, "limit": limit}
	if file == nil {
		b.wants(corebot.OutcomeError, "no such file", "fs.read", a)
		return
	}
	size := int64(len(*file))
	if size == 0 || offset >= size {
		b.wants(corebot.OutcomeSuccess, "[", "fs.read", a)
		return
	}
	whole := (*file)[offset:min(size, offset+limit)]
	whole = strings.ToValidUTF8(whole, "") // characters that are cut belong to other pieces
	r := b.call(corebot.RoleNormal, here, "fs.read", a)
	text, _, _ := strings.Cut(r.Content, "[")
	if r.Outcome != corebot.OutcomeSuccess || strings.TrimSuffix(text, "\n") != strings.TrimSuffix(whole, "\n") &&
		text != whole+"\n" {
		b.Errorf("read %v: got %q, want %q of %q", a, r.Content, whole, *file)
	}
}
