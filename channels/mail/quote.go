package mail

import (
	"strings"

	"github.com/corebot/corebot/internal/lazy"
)

var (
	// attribution is the line above a quote, such as "On Monday, Ann wrote:", in any language.
	attribution = lazy.Regexp(`:\s*$`)
	// original is the line above an old mail that is not quoted.
	original = lazy.Regexp(`(?i)^\s*(-{2,}\s*(original message|ursprüngliche nachricht|message d'origine|` +
		`mensaje original|messaggio originale)\s*-{2,}|_{20,})\s*$`)
	// headLine is a field in the head of an old mail, such as "From: Ann", in some languages.
	headLine  = lazy.Regexp(`(?i)^\s*\*?(from|von|de|da|sent|gesendet|date|datum|to|an|subject|betreff)\*?\s?:`)
	forwarded = lazy.Regexp(`(?im)^\s*(-{2,}\s*forwarded message\s*-{2,}|begin forwarded message:|` +
		`-{2,}\s*weitergeleitete nachricht\s*-{2,})`)
)

// own is what the sender of a mail has written himself: the text without the old mail at its end and without the
// signature. Quotes between the sender's own lines stay. A mail of which nothing would be left is kept whole.
func own(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	lines = beforeOriginal(lines)
	lines = beforeQuote(lines)
	for i, line := range lines {
		if line == "-- " || line == "--" {
			lines = beforeQuote(lines[:i])
			break
		}
	}
	if kept := strings.TrimSpace(strings.Join(lines, "\n")); kept != "" {
		return kept
	}
	return strings.TrimSpace(text)
}

// beforeOriginal cuts an old mail whose lines have no marks. Such a mail begins with at least two fields of a head
// within five lines after a line of original. Without that line, four fields after an empty line are enough.
func beforeOriginal(lines []string) []string {
	isHead := make([]bool, len(lines)+6)
	for i, line := range lines {
		isHead[i] = len(line) < 1000 && strings.Contains(line, ":") && headLine().MatchString(line)
	}
	for i, line := range lines {
		heads := 0
		for _, is := range isHead[i+1 : i+6] {
			if is {
				heads++
			}
		}
		if heads < 2 {
			continue
		}
		if original().MatchString(line) || isHead[i] && heads > 2 && (i == 0 || strings.TrimSpace(lines[i-1]) == "") {
			return lines[:i]
		}
	}
	return lines
}

// beforeQuote cuts the quote with which a mail ends, and the line above the quote that names its author. It returns nil
// if all lines are quoted or empty.
func beforeQuote(lines []string) []string {
	end, quoted := len(lines), false
	for end > 0 {
		line := strings.TrimSpace(lines[end-1])
		switch {
		case strings.HasPrefix(line, ">"):
			quoted = true
		case line != "":
			if !quoted {
				return lines
			}
			return lines[:end-attributed(lines[:end])]
		}
		end--
	}
	return nil
}

// attributed is how many of the last lines name the author of the quote that follows: 0, 1 or 2. A program breaks a
// long line of this kind in two. Then the second half begins with the address, or has neither a date nor an address.
func attributed(lines []string) int {
	last := strings.TrimSpace(lines[len(lines)-1])
	const telling = "0123456789@<"
	switch {
	case !attribution().MatchString(last):
		return 0
	case len(lines) > 1 && (last[0] == '<' || !strings.ContainsAny(last, telling)) &&
		strings.ContainsAny(lines[len(lines)-2], telling):
		return 2
	case strings.ContainsAny(last, telling):
		return 1
	}
	return 0
}
