package skills

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// fence stands before and behind front matter, in a line of its own.
const fence = "---"

// Parse reads a SKILL.md: its front matter, and the Markdown behind it without invisible characters. A mistake is
// [corebot.ErrInvalid] or [corebot.ErrTooLarge], with the line where it is known, and usually a hint.
func Parse(file []byte) (m FrontMatter, page string, err error) {
	front, page, err := split(file)
	if err != nil {
		return FrontMatter{}, "", err
	}
	if m, err = parseFrontMatter(front); err != nil {
		return FrontMatter{}, "", fmt.Errorf("front matter: %w", err)
	}
	return m, redact.Visible(strings.TrimLeft(page, "\n")), nil
}

// split parts the front matter from what is behind it. Line ends come out as "\n", and a byte order mark not at all.
func split(file []byte) (front, page string, err error) {
	switch {
	case len(file) > MaxFile:
		return "", "", fmt.Errorf("%w: %d bytes, the limit is %d", corebot.ErrTooLarge, len(file), MaxFile)
	case !utf8.Valid(file):
		return "", "", corebot.WithHint(fmt.Errorf("%w: it is not UTF-8 text", corebot.ErrInvalid), "save it as UTF-8")
	case bytes.IndexByte(file, 0) >= 0:
		return "", "", fmt.Errorf("%w: it has a NUL byte, so it is no text", corebot.ErrInvalid)
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(file), "\uFEFF"), "\r\n", "\n")
	rest, found := cutFence(text)
	if !found {
		return "", "", corebot.WithHint(fmt.Errorf("%w: it does not begin with front matter", corebot.ErrInvalid),
			"the first line is ---, then come name and description, then --- again")
	}
	for at := 0; at <= MaxFrontMatter; {
		if page, found := cutFence(rest[at:]); found {
			return rest[:at], page, nil
		}
		end := strings.IndexByte(rest[at:], '\n')
		if end < 0 {
			return "", "", corebot.WithHint(fmt.Errorf("%w: the front matter does not end", corebot.ErrInvalid),
				"a line of --- ends it")
		}
		at += end + 1
	}
	return "", "", fmt.Errorf("front matter: %w: the limit is %d bytes", corebot.ErrTooLarge, MaxFrontMatter)
}

// cutFence takes the first line off a text if that is a fence.
func cutFence(text string) (rest string, found bool) {
	line, rest, _ := strings.Cut(text, "\n")
	return rest, strings.TrimRight(line, " \t") == fence
}
