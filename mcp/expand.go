package mcp

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/corebot/corebot"
)

// maxValue bounds one text of the file after its variables were put in, in bytes.
const maxValue = 64 << 10

// expand puts variables of Corebot's environment into a text: ${NAME}, which must be set, and ${NAME:-default}, which takes the default if NAME is
// not set or empty. What is put in is not looked at again, and a "$" without a brace stays. No error spells a value.
func expand(text string, env func(string) (string, bool)) (string, error) {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			break
		}
		inner, behind, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("%w: a ${ without its }", corebot.ErrInvalid)
		}
		variable, fallback, hasFallback := strings.Cut(inner, ":-")
		if !name.MatchString(variable) {
			return "", fmt.Errorf("%w: ${%.40s}: want ${NAME} or ${NAME:-default}", corebot.ErrInvalid, inner)
		}
		value, set := env(variable)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set:
			return "", corebot.WithHint(fmt.Errorf("%w: the variable %s is not set", corebot.ErrInvalid, variable), "set it where Corebot is started, or write ${"+variable+":-default}")
		}
		out.WriteString(value)
		rest = behind
	}
	if out.Len() > maxValue {
		return "", fmt.Errorf("%w: more than %d bytes", corebot.ErrInvalid, maxValue)
	}
	return out.String(), nil
}
