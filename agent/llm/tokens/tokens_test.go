package tokens

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm"
)

var prose = strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100)

func TestACountIsTheEstimateUntilSomethingWasReported(t *testing.T) {
	var c Counter
	if c.Learned() || c.Count(prose) != (llm.Estimate{}).Count(prose) {
		t.Errorf("%d tokens, learned %v", c.Count(prose), c.Learned())
	}
}

func TestACountFollowsWhatTheProviderReports(t *testing.T) {
	var c Counter
	estimated := llm.Estimate{}.Count(prose)
	real := estimated * 3 / 4
	for range 100 {
		c.Learn(estimated, real)
	}
	if n := c.Count(prose); n < real || n > real*11/10 {
		t.Errorf("%d tokens, the provider counts %d", n, real)
	}
}

// A conversation that costs more than the last ones is counted so from its first answer on.
func TestACountRisesAtOnceAndFallsSlowly(t *testing.T) {
	var c Counter
	c.Learn(1_000, 700)
	if n := c.Count(prose); n <= (llm.Estimate{}).Count(prose)*9/10 {
		t.Errorf("%d tokens after one low report", n)
	}
	c.Learn(1_000, 1_500)
	if n, want := c.Count(prose), (llm.Estimate{}).Count(prose)*3/2; n < want {
		t.Errorf("%d tokens after a high report, want %d", n, want)
	}
}

// A server that cuts prompts off reports less for a longer prompt.
func TestAReportOfAPromptThatWasCutOffChangesLittle(t *testing.T) {
	var c Counter
	for range 1_000 {
		c.Learn(100_000, 2_048)
	}
	if n, least := c.Count(prose), (llm.Estimate{}).Count(prose)/2; n < least {
		t.Errorf("%d tokens, want %d", n, least)
	}
	c.Learn(1_000, 1<<40)
	if n, most := c.Count(prose), (llm.Estimate{}).Count(prose)*5/2; n > most {
		t.Errorf("%d tokens, want at most %d", n, most)
	}
}

func TestOneReportOfSixteenIsLearnedFromAfterTheFirst(t *testing.T) {
	var c Counter
	due := 0
	for range 1_600 {
		if c.Due() {
			due++
		}
	}
	if due != 104 {
		t.Errorf("%d of 1,600 reports are due", due)
	}
}

func TestSmallAndMissingReportsTeachNothing(t *testing.T) {
	var c Counter
	c.Learn(minLearned-1, 9_000)
	c.Learn(5_000, 0)
	c.Learn(5_000, -3)
	if c.Learned() {
		t.Errorf("learned %v", c.learned())
	}
}

func TestATextHasNoMoreTokensThanBytes(t *testing.T) {
	var c Counter
	c.Learn(1_000, 2_000)
	for _, text := range []string{"", "1", "{}[]", "12345", "中", "😀"} {
		if n := c.Count(text); n > len(text) {
			t.Errorf("%q: %d tokens", text, n)
		}
	}
}
