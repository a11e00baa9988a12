package agent

import (
	"context"

	"github.com/corebot/corebot"
)

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
			if files == 0 {
				continue
			}
			if placed += files; placed > maxPlaced {
				return
			}
			e.Parts = corebot.WithText(t.filed(ctx, e.Parts), e.Text())
		}
	}
}
