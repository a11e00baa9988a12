// Package offline is the model that Corebot runs on when there is no other: built in, deterministic, without a network.
//
// It lets a newcomer see the whole machine work before he has a key. It says what it is and never pretends to
// understand. A line such as
//
//	/tool fs.list {"path":"."}
//
// in the user's last message makes that call, and the answer after it shows the result. Several lines make their calls
// in one answer, in order. Any other question is answered with the lines of the context that share most words with it,
// quoted with their source.
//
// It books no tokens: its use costs nothing.
//
// It calls only tools that the user's last message asked for by such a line. Everything else is data: a /tool line in a
// tool result, a system section or the history does nothing.
package offline

import (
	"context"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/outside"
)

// Name is what the model calls itself, in answers and in [corebot.Answer].
const Name = "offline"

// Model is the offline model. The zero Model is ready to use, by any number of goroutines.
type Model struct{}

var (
	_ llm.Model   = Model{}
	_ llm.Thinker = Model{}
)

// Name is [Name].
func (Model) Name() string { return Name }

// Thinks implements [llm.Thinker]: the offline model does not.
func (Model) Thinks(corebot.Thinking) (does corebot.Thinking, sure bool) {
	return corebot.ThinkOff, true
}

// Complete answers r; see the package doc. It fails only when ctx has ended.
func (Model) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	text, calls := answer(r)
	if err := speak(ctx, text, onText); err != nil {
		return corebot.Answer{}, err
	}
	return corebot.Answer{Text: text, Calls: calls, Model: Name}, nil
}

func answer(r llm.Request) (string, []corebot.ToolCall) {
	asked := lastUser(r.Messages)
	if asked < 0 {
		return introduction + "\n\n" + help, nil
	}
	turn := r.Messages[asked:]
	if len(turn) > 1 {
		if results := resultsOf(turn[1:]); results != "" {
			return results, nil
		}
	}
	lines, problems := parseToolLines(turn[0].Text)
	switch {
	case len(problems) > 0:
		return strings.Join(problems, "\n") + "\n\n" + toolUsage, nil
	case len(lines) > 0 && len(r.Tools) == 0:
		return "No tools are available for this answer, so I called none.", nil
	case len(lines) > 0:
		return "", callsOf(lines, r.Messages)
	}
	return converse(turn[0].Text, r.Messages[:asked]), nil
}

func lastUser(messages []llm.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == llm.User {
			return i
		}
	}
	return -1
}

// resultsOf shows what the tools of this turn gave back, each under the name of its call.
func resultsOf(turn []llm.Message) string {
	tools := make(map[string]string)
	var parts []string
	for _, m := range turn {
		for _, c := range m.Calls {
			tools[c.ID] = c.Tool
		}
		if m.Role != llm.ToolRole {
			continue
		}
		name := tools[m.CallID]
		if name == "" {
			name = "a tool"
		}
		result := outside.Unmarked(m.Text) // a person reads it
		if strings.TrimSpace(result) == "" {
			result = "(nothing)"
		}
		parts = append(parts, fmt.Sprintf("%s answered:\n%s", name, result))
	}
	return strings.Join(parts, "\n\n")
}

// speak hands over the text in words, as a real model would.
func speak(ctx context.Context, text string, onText func(string)) error {
	for word := range strings.SplitAfterSeq(text, " ") {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if onText != nil && word != "" {
			onText(word)
		}
	}
	return nil
}
