package llmtest

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/corebot/corebot/internal/outside"
)

var (
	place    = regexp.MustCompile(`directory of the operator, by its absolute path: (.+) \(read`)
	quoted   = regexp.MustCompile("`([^`]+)`")
	fileName = regexp.MustCompile(`[\w-]+\.\w+`)
)

// Clerk is a script of a model that works in the directory of the operator that the prompt names. It reads the file
// that a question names, runs the program that stands in backquotes, and tells what came back. Its answers have what
// only the tool can know: whoever reads one knows that the tool ran.
func Clerk(r Request) Answer {
	var asked, result, root string
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			asked, result = string(m.Content), ""
		case "tool":
			result = string(m.Content)
			continue
		}
		if found := place.FindStringSubmatch(string(m.Content)); found != nil {
			root = found[1]
		}
	}
	if at := strings.LastIndex(asked, "</data>"); at >= 0 { // the situation stands before the question
		asked = asked[at:]
	}
	program, file := quoted.FindStringSubmatch(asked), fileName.FindString(asked)
	switch {
	case program == nil && file == "":
		return Text("Name a file, or a program in backquotes.")
	case root == "":
		return Text("No directory of yours is open to me.")
	case result == "" && program != nil:
		return toolCall("shell_exec", map[string]any{"argv": strings.Fields(program[1]), "dir": root})
	case result == "":
		return toolCall("fs_read", map[string]any{"path": path.Join(root, file)})
	}
	lines := inside(result)
	last := lines[len(lines)-1]
	if program != nil {
		return Text(fmt.Sprintf("%s says %s %s", program[1], last, lines[0]))
	}
	return Text(fmt.Sprintf("%s has %d lines. The last one is: %s", file, len(lines), last))
}

func toolCall(name string, args map[string]any) Answer {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err) // of strings and lists of strings
	}
	return ToolCalls(Call{Name: name, Args: string(text)})
}

// inside are the lines of a result, without the block that marks it as data. There is one at least.
func inside(result string) (lines []string) {
	outside.EditResult(result, func(text string) string {
		lines = strings.Split(strings.TrimSpace(text), "\n")
		return text
	})
	return lines
}
