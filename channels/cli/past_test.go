package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
)

func said(speaker corebot.Speaker, id, text string, at time.Time) corebot.HistoryEntry {
	return corebot.HistoryEntry{Speaker: speaker, MessageID: id, Parts: corebot.TextPart(text), At: at}
}

func TestWhatWasSaidBeforeStandsThereWithTimesAndIsCut(t *testing.T) {
	now := time.Date(2026, 3, 9, 18, 0, 0, 0, time.Local)
	before := now.Add(-24 * time.Hour)
	long := strings.Repeat("so it goes on and on\n", 5_000)
	past := []corebot.HistoryEntry{
		said(corebot.SpeakerUser, "1", "how\x1b[2J\nare you?", before),
		said(corebot.SpeakerAssistant, "1", long, before.Add(time.Minute)),
		said(corebot.SpeakerUser, "2", "fine", now.Add(-time.Hour)),
	}
	want := "— Sunday, 8 March 2026 —\n18:00 › how␛[2J\n        are you?\n18:01   so it goes on and on\n" +
		strings.Repeat("        so it goes on and on\n", pastRows-2) + "        so it goes on and on…\n" +
		"— Monday, 9 March 2026 —\n17:00 › fine\n"
	if got := pastText(past, newStyles(true), 80, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for width := range 30 {
		for line := range strings.SplitSeq(pastText(past, newStyles(true), width, now), "\n") {
			if most := max(width, clockColumns+promptColumns+1); ansi.StringWidth(line) > most {
				t.Fatalf("%d columns for a width of %d: %q", ansi.StringWidth(line), width, line)
			}
		}
	}
}

func TestAnAnswerToTheLastQuestionOfThePastNeedsNoIntroduction(t *testing.T) {
	d := newDesk(t)
	d.recall([]corebot.HistoryEntry{
		said(corebot.SpeakerUser, "1", "first", time.Now()),
		said(corebot.SpeakerUser, "2", "second", time.Now()),
	})
	d.show(reply("r2", "2", "an answer"))
	requireLacks(t, d.printed(), "in reply to")
	d.show(reply("r1", "1", "another"))
	requireLacks(t, d.printed(), "earlier message")
}
