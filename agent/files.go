package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/runes"
)

// Transcriber gives the words of a recording, and the model that heard them. Its error says in plain words why there
// are none.
type Transcriber interface {
	Transcribe(ctx context.Context, k corebot.Key, recording corebot.Part) (words, model string, err error)
}

const (
	maxTranscribed = 4        // recordings of one message
	maxTranscript  = 64 << 10 // bytes of one
)

// transcribe gives recordings their words, as a text of the part. Each is a step of the journal, so that a later
// attempt asks nobody again. A recording that is not transcribed says why.
func (t *turn) transcribe(ctx context.Context, parts []corebot.Part) ([]corebot.Part, error) {
	if t.opts.Transcriber == nil {
		return parts, nil
	}
	done := 0
	for i, p := range parts {
		if p.Type != corebot.PartAudio || p.Hash == "" || done == maxTranscribed {
			continue
		}
		if done++; done == 1 {
			parts = slices.Clone(parts)
		}
		heard, there, err := t.transcript(ctx, p)
		if err != nil || !there {
			return parts, err
		}
		if parts[i].Text = "it was not transcribed: " + heard.Text; heard.Model != "" {
			parts[i].Text = "the sender says in it: " + strconv.Quote(outside.Text(heard.Text))
		}
	}
	return parts, nil
}

// transcript takes a transcript from the journal, or makes it. An earlier attempt that went past this place without one
// keeps its journal: then there is none.
func (t *turn) transcript(ctx context.Context, p corebot.Part) (heard corebot.Answer, there bool, err error) {
	if s, ok := t.nextRecorded(corebot.StepTranscript); ok {
		return *s.Answer, true, nil
	}
	if t.position < len(t.delivery.Journal) {
		return heard, false, nil
	}
	began := time.Now()
	heard.Text, heard.Model, err = t.opts.Transcriber.Transcribe(ctx, t.delivery.Message.Key, p)
	if err != nil {
		heard = corebot.Answer{Text: err.Error()}
	}
	heard.Text = runes.Head(heard.Text, maxTranscript)
	err = t.journal.Record(ctx, t.delivery, corebot.Step{
		Position: t.position, Kind: corebot.StepTranscript, State: corebot.StepDone, Answer: &heard,
		StartedAt: began, EndedAt: time.Now(),
	})
	if err != nil {
		return heard, false, fmt.Errorf("journal a transcript: %w", err)
	}
	t.position++
	return heard, true, nil
}

// attaches is how many more files the reply takes. The answer of a job, or to another agent, is text.
func (t *turn) attaches() int {
	if _, relayed := t.delivery.Answer(t.who, ""); relayed || t.delivery.Job() != 0 {
		return 0
	}
	return corebot.MaxAttached - len(t.attached)
}

// parts are the content of the reply: a text, and the files that tools have attached. No text is no part.
func (t *turn) parts(text string) []corebot.Part {
	if blank(text) {
		return t.attached
	}
	return corebot.WithText(t.attached, text)
}

// Files gives the files of messages a place among the files that tools read.
type Files interface {
	// Place returns the parts with a text each: where a part is, how large it is, or why its content is not there. It
	// places what is not there yet, on account of the caller.
	Place(ctx context.Context, who corebot.Caller, parts []corebot.Part) []corebot.Part
}

// maxPlaced is how many files of the session before a turn are looked up. Older ones keep their names alone.
const maxPlaced = 20

// filed are the files among parts, with what the model is told of each.
func (t *turn) filed(ctx context.Context, parts []corebot.Part) []corebot.Part {
	files := corebot.Attachments(parts)
	if len(files) == 0 || t.opts.Files == nil {
		return files
	}
	return t.opts.Files.Place(ctx, t.who, files)
}

// filePast tells of the newest files of the session before the turn. The history keeps references, and no bytes.
func (t *turn) filePast(ctx context.Context) {
	placed := 0
	for i := 0; i < len(t.past.turns) && placed < maxPlaced; i++ { // the newest turn is the first
		entries := t.past.turns[i].entries
		for j := len(entries) - 1; j >= 0; j-- {
			e := &entries[j]
			files := len(corebot.Attachments(e.Parts))
			if files == 0 || e.Speaker == corebot.SpeakerAssistant { // what the agent sent, it has
				continue
			}
			if placed += files; placed > maxPlaced {
				return
			}
			e.Parts = corebot.WithText(t.filed(ctx, e.Parts), e.Text())
		}
	}
}
