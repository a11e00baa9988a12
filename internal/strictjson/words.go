package strictjson

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Place is the line and the column of a byte, both from 1. A column is a character.
func Place(data []byte, at int) (line, column int) {
	before := data[:min(at, len(data))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

// Words say what is wrong with the document that the error is of, to somebody who edits it by hand.
func (e *Error) Words(data []byte) string {
	switch e.What {
	case Encoding:
		return "bytes that are not UTF-8"
	case Trailing:
		return "something follows the document"
	case Cut:
		if len(bytes.TrimSpace(data)) == 0 {
			return "the file is empty, and must have an object: {}"
		}
		return "the file ends in the middle"
	case Doubled:
		return fmt.Sprintf("the name %s stands there twice", short(e.Name))
	case Syntax:
		return e.syntax(data, data[min(e.At, len(data)):])
	}
	return e.err.Error()
}

// syntax names what people write into JSON that it does not have.
func (e *Error) syntax(data, rest []byte) string {
	said := e.err.Error()
	before := bytes.TrimRight(data[:len(data)-len(rest)], " \t\r\n")
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "a byte order mark, which JSON does not have"
	case bytes.HasPrefix(rest, []byte("/")), bytes.HasPrefix(rest, []byte("#")):
		return "a comment, which JSON does not have"
	case bytes.HasSuffix(before, []byte(",")) && len(rest) > 0 && (rest[0] == '}' || rest[0] == ']'):
		return fmt.Sprintf("a comma before the closing %c", rest[0])
	case bytes.HasPrefix(rest, []byte("'")):
		return `single quotes: JSON has double quotes (") around names and texts`
	case strings.Contains(said, "(expecting ':')"):
		return "a colon is missing between a name and its value"
	case strings.Contains(said, "(expecting ',' or '}')"):
		return "a comma or a } is missing before this"
	case strings.Contains(said, "(expecting ',' or ']')"):
		return "a comma or a ] is missing before this"
	case strings.Contains(said, "escape sequence"):
		return `a backslash that begins no escape: a backslash itself is written \\`
	case strings.Contains(said, "in string"):
		return `a line break or a control character in a text: write \n, or \t`
	case strings.Contains(said, "in literal"):
		return "neither true nor false nor null: a text has double quotes around it"
	}
	first, _ := utf8.DecodeRune(rest)
	return fmt.Sprintf(`nothing in JSON begins with %q: names and texts have double quotes (") around them`, first)
}
