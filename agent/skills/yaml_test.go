package skills

import (
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAPanicOfTheParserIsAnErrorOfItsSkill(t *testing.T) {
	entries, err := contained(func() ([]entry, error) {
		var none []entry
		return none, errors.New(none[0].key)
	})
	if !errors.Is(err, corebot.ErrInvalid) || entries != nil {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestOnlyPagesThatGoIntoEveryPromptAreKeptInMemory(t *testing.T) {
	for always, size := range map[string]int{"always: false": 10, "always: true": MaxAlways + 1} {
		s := parsed("", []byte("---\nname: tea\ndescription: x\n"+always+"\n---\n"+strings.Repeat("x", size)))
		if s.Err != nil || s.page != "" || s.pageBytes != size {
			t.Errorf("%s: %d bytes are kept of %d, %v", always, len(s.page), s.pageBytes, s.Err)
		}
	}
	if s := parsed("", []byte("---\nname: tea\ndescription: x\nalways: true\n---\nx")); s.page != "x" {
		t.Errorf("kept is %q", s.page)
	}
}
