package observability

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheLevelMovesWhileTheLoggerIsInUse(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "debug", "json", nil)
	if err != nil {
		t.Fatal(err)
	}
	var level Level
	log = log.Hook(&level)
	log.Debug().Msg("one")
	if err := level.Set("warn"); err != nil {
		t.Fatal(err)
	}
	log.Info().Msg("two")
	log.Warn().Msg("three")
	if err := level.Set("loud"); err == nil {
		t.Error("a level that is not known was taken")
	}
	log.Info().Msg("four")
	if got := out.String(); !strings.Contains(got, "one") || strings.Contains(got, "two") ||
		!strings.Contains(got, "three") || strings.Contains(got, "four") {
		t.Errorf("logged:\n%s", got)
	}
}
