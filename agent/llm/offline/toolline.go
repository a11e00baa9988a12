package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

const toolUsage = `To call a tool, write a line of the form

/tool NAME {"argument": "value"}

for example: /tool fs.list {"path":"."}. Several such lines make several calls, in order.`

// toolLine is one call that the user asked for.
type toolLine struct {
	tool string
	args json.RawMessage
}

// parseToolLines finds the lines of a message that begin with /tool. If there are problems, none of the lines should
// run: half of what was asked for may be worse than nothing.
func parseToolLines(message string) (lines []toolLine, problems []string) {
	for line := range strings.Lines(message) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "/tool")
		if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		l, err := parseToolLine(strings.TrimSpace(rest))
		if err != nil {
			problems = append(problems, fmt.Sprintf("I did not understand %q: %v.", strings.TrimSpace(line), err))
			continue
		}
		lines = append(lines, l)
	}
	return lines, problems
}

func parseToolLine(s string) (toolLine, error) {
	end := strings.IndexAny(s, " \t{")
	if end < 0 {
		end = len(s)
	}
	name, args := s[:end], []byte(strings.TrimSpace(s[end:]))
	switch {
	case name == "":
		return toolLine{}, errors.New("the name of a tool is missing")
	case len(args) == 0:
		return toolLine{name, json.RawMessage("{}")}, nil
	case !bytes.HasPrefix(args, []byte("{")):
		return toolLine{}, fmt.Errorf("the arguments of %s must be a JSON object, such as {\"path\":\".\"}", name)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil {
		return toolLine{}, fmt.Errorf("the arguments of %s are not JSON", name)
	}
	return toolLine{name, args}, nil
}

// callsOf gives the calls ids that depend on their place in the conversation and occur nowhere else in it.
func callsOf(lines []toolLine, conversation []llm.Message) []corebot.ToolCall {
	taken := make(map[string]bool)
	for _, m := range conversation {
		for _, c := range m.Calls {
			taken[c.ID] = true
		}
	}
	calls := make([]corebot.ToolCall, len(lines))
	position := len(conversation)
	for i, l := range lines {
		id := fmt.Sprintf("offline_%d_%d", position, i)
		for ; taken[id]; id = fmt.Sprintf("offline_%d_%d", position, i) {
			position++
		}
		calls[i] = corebot.ToolCall{ID: id, Tool: l.tool, Args: l.args}
	}
	return calls
}
