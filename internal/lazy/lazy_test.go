package lazy_test

import (
	"testing"

	"github.com/corebot/corebot/internal/lazy"
)

func TestAPatternIsCompiledOnceAndNotBeforeItsUse(t *testing.T) {
	lazy.Regexp(`(`) // it would panic
	digits := lazy.Regexp(`[0-9]+`)
	if first, second := digits(), digits(); first != second {
		t.Error("it is compiled again")
	}
	if got := digits().FindString("a12b"); got != "12" {
		t.Errorf("found %q", got)
	}
}
