package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/runes"
)

// maxWhole bounds what is kept of one output at all, in bytes.
const maxWhole = 16 << 20

// present makes a tool's output fit for a model: visible characters only, no secrets, nothing that forges a role,
// bounded, and marked if it is from outside.
//
// Invisible characters go first, since one in the middle would hide a secret; the cap comes after that, since half a
// secret would not be known for one. So the artifact holds no secret either. The marks come last: nothing cuts them
// off.
func (j *job) present(ctx context.Context, text string) string {
	limit, mark := j.box.opts.MaxOutput, outside.Text
	if j.readOutside {
		limit, mark = limit-outside.Overhead, outside.Result
	}
	lost := max(0, len(text)-maxWhole)
	whole := j.box.opts.Redactor.Text(redact.Visible(runes.Head(text, maxWhole)))
	shown := outside.Text(whole)
	if len(shown) > limit || lost > 0 {
		where := j.keep(ctx, whole)
		if lost > 0 {
			where += fmt.Sprintf("; %d bytes beyond %d were dropped", lost, maxWhole)
		}
		shown = shorten(shown, limit, where)
	}
	return mark(shown)
}

// keep stores the whole output and returns words that say where. Output that cannot be stored does not fail the call:
// its effect has taken place.
func (j *job) keep(ctx context.Context, text string) string {
	if j.box.opts.Artifacts == nil {
		return "they were not kept"
	}
	sum := sha256.Sum256([]byte(j.call.StepID)) // one name in every attempt: a repeated call replaces its file
	path, err := j.box.opts.Artifacts.Save(ctx, j.call.Caller, j.label+"-"+hex.EncodeToString(sum[:8])+".txt", text)
	if err != nil {
		j.box.opts.Log.Warn().Err(err).Str("tool", j.label).Str("step", j.call.StepID).Msg("long output was not kept")
		if full := (*rootfs.Full)(nil); errors.As(err, &full) {
			return fmt.Sprintf("they could not be kept: %v (%s)", full, corebot.HintOf(err))
		}
		return "they could not be kept"
	}
	return "the whole output is in " + path
}

// shorten keeps the beginning and the end of a text, about half of limit each, around a note of what was left out. The
// result has at most limit bytes, unless limit has no room for the note. The end does not begin a line: it could be
// made to look like one.
func shorten(text string, limit int, where string) string {
	note := func(left int) string { return fmt.Sprintf("\n\n[%d bytes left out here; %s]\n\n…", left, where) }
	room := max(0, limit-len(note(len(text))))
	first := runes.Head(text, (room+1)/2)
	last := runes.Tail(text[len(first):], room/2)
	left := len(text) - len(first) - len(last)
	if left == 0 {
		return text
	}
	return first + note(left) + last
}
