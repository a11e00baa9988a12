package irc

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxTags   = 8191 // bytes of the tags of a line, with the @
	maxRead   = 16 << 10
	maxParams = 15
	maxLine   = 512 // bytes of a line without tags, with its end
)

// line is what a server says.
type line struct {
	tags    map[string]string
	source  source
	command string // a word in capital letters, or a number
	params  []string
}

// source is who a line is from. A server has a nick with a dot, or no user.
type source struct{ nick, user, host string }

func (l line) param(i int) string {
	if i < len(l.params) {
		return l.params[i]
	}
	return ""
}

// last is the words of an answer of the server.
func (l line) last() string {
	if len(l.params) == 0 {
		return ""
	}
	return l.params[len(l.params)-1]
}

var errLine = errors.New("this is no line of IRC")

// parse reads one line without its end. Text that is no UTF-8 is taken for Latin 1, as old clients write it.
func parse(raw []byte) (l line, err error) {
	rest := readable(raw)
	if tags, is := strings.CutPrefix(rest, "@"); is {
		tags, rest, _ = strings.Cut(tags, " ")
		if len(tags) > maxTags {
			return l, fmt.Errorf("%w: its tags have %d bytes", errLine, len(tags))
		}
		l.tags = parseTags(tags)
	}
	rest = strings.TrimLeft(rest, " ")
	if from, is := strings.CutPrefix(rest, ":"); is {
		from, rest, _ = strings.Cut(from, " ")
		from, l.source.host, _ = strings.Cut(from, "@")
		l.source.nick, l.source.user, _ = strings.Cut(from, "!")
	}
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if strings.HasPrefix(rest, ":") && l.command != "" || len(l.params) == maxParams-1 {
			l.params = append(l.params, strings.TrimPrefix(rest, ":"))
			break
		}
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		if l.command == "" {
			l.command = strings.ToUpper(word)
			continue
		}
		l.params = append(l.params, word)
	}
	if l.command == "" || strings.ContainsFunc(l.command, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		return l, fmt.Errorf("%w: %.60q", errLine, raw)
	}
	return l, nil
}

// readable is the text of a line, without what cannot be stored.
func readable(raw []byte) string {
	if utf8.Valid(raw) {
		return strings.ReplaceAll(string(raw), "\x00", "")
	}
	runes := make([]rune, 0, len(raw))
	for _, b := range raw {
		if b != 0 {
			runes = append(runes, rune(b))
		}
	}
	return string(runes)
}

var unescape = strings.NewReplacer(`\:`, ";", `\s`, " ", `\\`, `\`, `\r`, "\r", `\n`, "\n")

// parseTags reads the tags of a line. Of a tag that comes twice the last counts.
func parseTags(s string) map[string]string {
	tags := map[string]string{}
	for tag := range strings.SplitSeq(s, ";") {
		key, value, _ := strings.Cut(tag, "=")
		if key == "" {
			continue
		}
		value = unescape.Replace(value)
		if n := len(value); n > 0 && value[n-1] == '\\' && !strings.HasSuffix(tag, `\\`) {
			value = value[:n-1]
		}
		tags[key] = value
	}
	return tags
}

// next reads lines until one can be read. A line without an end in maxRead bytes is skipped whole.
func next(in *bufio.Reader) (line, error) {
	for {
		raw, err := in.ReadSlice('\n')
		for long := false; ; long = true {
			if errors.Is(err, bufio.ErrBufferFull) {
				raw, err = in.ReadSlice('\n')
				continue
			}
			if err != nil {
				return line{}, err
			}
			if long {
				raw = nil
			}
			break
		}
		for len(raw) > 0 && (raw[len(raw)-1] == '\n' || raw[len(raw)-1] == '\r') {
			raw = raw[:len(raw)-1]
		}
		if len(raw) == 0 {
			continue
		}
		if l, err := parse(raw); err == nil {
			return l, nil
		}
	}
}

// fold makes one name of all spellings that a server takes for the same. Servers differ in four characters; two names
// that differ in them alone are one to none of the others, so the choice harms nobody.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
