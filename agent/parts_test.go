package agent_test

import (
	"slices"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// cat and voice are what somebody sent beside a text.
var (
	cat   = corebot.Part{Type: corebot.PartImage, Hash: "c0ffee", Name: "cat.png", MediaType: "image/png"}
	voice = corebot.Part{Type: corebot.PartAudio, Hash: "beef", Name: "note.ogg", MediaType: "audio/ogg"}
)

// shown are the attachments that a request shows, in order.
func shown(r llm.Request) (parts []corebot.Part) {
	for _, m := range r.Messages {
		parts = append(parts, m.Parts...)
	}
	return parts
}

func TestTheModelIsShownAttachmentsNowAndInLaterTurns(t *testing.T) {
	b := newBench(t, apptest.Options{Model: apptest.Always(apptest.Text("hm"))})
	parts := append([]corebot.Part{cat}, corebot.TextPart("what is this?")...)
	if got := shown(b.hears(t, channels.Incoming{ID: "1", SenderID: "ada", Parts: parts})); !slices.Equal(got,
		[]corebot.Part{cat}) {
		t.Errorf("in its own turn %+v", got)
	}
	b.hears(t, channels.Incoming{ID: "2", SenderID: "ada", Parts: []corebot.Part{voice}})
	if got := shown(b.hears(t, channels.Incoming{
		ID: "3", SenderID: "ada",
		Parts: corebot.TextPart("well?"),
	})); !slices.Equal(got, []corebot.Part{cat, voice}) {
		t.Errorf("in a later turn %+v", got)
	}
	said := b.Said("a")
	if !slices.Equal(said[0].Parts, parts) || said[0].Text() != "what is this?" ||
		!slices.Equal(said[2].Parts, []corebot.Part{voice}) {
		t.Errorf("the history is %+v", said)
	}
}
