package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// toolShare is which part of a prompt the tools may take before they are shortened.
const toolShare = 3

// pastShare is which part of a prompt the session needs at least: with less the context is too small.
const pastShare = 4

// maxBriefText bounds what is left of a tool's description when room is short, in bytes.
const maxBriefText = 160

// sizedTools are tools as they were offered, and their short form.
type sizedTools struct {
	whole, brief toolForm
	cost         int // of the whole ones, when they were offered first: the choice of a form stays
}

// toolForm is tools as requests carry them, with the last count of them.
type toolForm struct {
	tools   []llm.Tool
	counted atomic.Pointer[toolCount]
}

// toolCount is what tools cost by a lesson of the tokenizer.
type toolCount struct {
	lesson uint64
	tokens int
}

// has says whether tools are those of the form.
func (f *toolForm) has(tools []llm.Tool) bool {
	return f != nil && len(tools) > 0 && len(tools) == len(f.tools) && &tools[0] == &f.tools[0]
}

// cost counts the tools again only if the tokenizer has learned something since.
func (f *toolForm) cost(t llm.Tokenizer) int {
	lesson := uint64(0)
	if learner, ok := t.(llm.Learner); ok {
		lesson = learner.Lesson()
	}
	last := f.counted.Load()
	if last == nil || last.lesson != lesson {
		last = &toolCount{lesson, countTools(t, f.tools)}
		f.counted.Store(last)
	}
	return last.tokens
}

// maxToolSets is how many sets of tools are kept: admins are offered others than normal senders.
const maxToolSets = 4

// sized gives the tools as this turn's room allows: whole, or shortened where they would take too much of it. It
// depends on the tools and the size of the context alone: the next turn is offered the same bytes.
func (t *turn) sized(offered []llm.Tool) []llm.Tool {
	if len(offered) == 0 { // the last call of a turn
		return nil
	}
	set := t.toolSet(offered)
	t.form = &set.whole
	if set.cost > t.room/toolShare {
		t.form, t.shortened = &set.brief, true
	}
	return t.form.tools
}

// toolSet finds tools among those that turns were offered lately. It keeps others.
func (t *turn) toolSet(offered []llm.Tool) *sizedTools {
	var known []*sizedTools
	if sets := t.tooling.Load(); sets != nil {
		known = *sets
	}
	for _, set := range known {
		if slices.EqualFunc(set.whole.tools, offered, sameTool) {
			return set
		}
	}
	set := &sizedTools{}
	set.whole.tools, set.brief.tools = slices.Clone(offered), briefTools(offered)
	set.cost = set.whole.cost(t.tokenizer)
	known = append([]*sizedTools{set}, known[:min(len(known), maxToolSets-1)]...)
	t.tooling.Store(&known)
	return set
}

func sameTool(a, b llm.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && a.Unapproved == b.Unapproved &&
		bytes.Equal(a.Schema, b.Schema)
}

// ToolTokens is what tools take of every prompt: as they are, and shortened as in a small context.
func ToolTokens(t llm.Tokenizer, tools []llm.Tool) (whole, brief int) {
	return countTools(t, tools), countTools(t, briefTools(tools))
}

// TooManyToolTokens says whether tools that take so many tokens of a prompt are shortened.
func TooManyToolTokens(tokens, prompt int) bool { return tokens > prompt/toolShare }

// crampedText tells a chat that its conversation has little room.
const crampedText = "The model's context is small for this conversation: what was said earlier reaches the model " +
	"only as a short summary, or not at all. " +
	"/new begins a new conversation. An operator can see more with `corebot doctor`."

// noteCramped tells the chat, once in a session, that the context is too small. The context is too small when no prompt
// shows a part of the session any more, or only a summary shows it. The argument left is how many tokens the session
// has beside the rest of the prompt.
func (t *turn) noteCramped(left int) {
	lost := len(t.shown) < len(t.past.turns)
	squeezed := t.past.summary.Through > 0 && (t.shortened || left < t.room/pastShare)
	switch {
	case !lost && !squeezed:
	case t.past.summary.Through > 0:
		t.cramped = t.past.summary.Session
	case len(t.past.turns) > 0:
		t.cramped, _ = t.past.turns[0].place()
	}
}

// crampedNotice is the same message in every turn of a session, so that a chat has it once. Another wording is
// another message.
func crampedNotice(k corebot.Key, session int64) corebot.Message {
	wording := sha256.Sum256([]byte(crampedText))
	return corebot.TextNotice(k, corebot.OwnID("context", session, fmt.Sprintf("%x", wording[:4])), "", crampedText,
		corebot.Notice{Kind: corebot.NoticeContext})
}

// briefTools shortens tools for a small context: each keeps the first sentence of its description, and its schema
// without prose. The names, types and rules of the arguments stay. The same tools are shortened to the same bytes, so
// that a provider's cache holds.
func briefTools(tools []llm.Tool) []llm.Tool {
	short := make([]llm.Tool, len(tools))
	for i, tool := range tools {
		tool.Description = firstSentence(tool.Description)
		tool.Schema = briefSchema(tool.Schema)
		short[i] = tool
	}
	return short
}

// firstSentence is the beginning of a text up to the end of its first sentence, or of its first paragraph.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n\n")
	s = oneLine(s)
	for i := 0; i < len(s); i++ {
		next, _ := utf8.DecodeRuneInString(strings.TrimLeft(s[i+1:], " "))
		if ends := s[i] == '.' && i+1 < len(s) && s[i+1] == ' '; ends && !unicode.IsLower(next) {
			s = s[:i+1]
		}
	}
	if len(s) > maxBriefText {
		s = strings.ToValidUTF8(s[:maxBriefText], "") + "…"
	}
	return s
}

// briefSchema takes the prose out of a JSON schema. One that cannot be read stays as it is.
func briefSchema(schema json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var root any
	if d.Decode(&root) != nil {
		return schema
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out) // which sorts members: their order says nothing
	enc.SetEscapeHTML(false)
	if enc.Encode(withoutProse(root)) != nil || out.Len() > len(schema) {
		return schema
	}
	return bytes.TrimSpace(out.Bytes())
}

// withoutProse removes descriptions from a schema. It descends only where JSON Schema has schemas of its own. A
// property may be called "description", and the values of enum, const and default are data.
func withoutProse(schema any) any {
	members, is := schema.(map[string]any)
	if !is {
		return schema
	}
	short := make(map[string]any, len(members))
	for name, value := range members {
		switch name {
		case "description", "title", "examples", "$comment":
			continue
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			short[name] = eachMember(value)
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
			"unevaluatedItems",
			"unevaluatedProperties", "additionalItems", "allOf", "anyOf", "oneOf", "prefixItems":
			short[name] = eachElement(value)
		default:
			short[name] = value
		}
	}
	return short
}

// eachMember shortens the schemas behind the names of an object.
func eachMember(value any) any {
	members, is := value.(map[string]any)
	if !is {
		return value
	}
	short := make(map[string]any, len(members))
	for name, schema := range members {
		short[name] = withoutProse(schema)
	}
	return short
}

// eachElement shortens a schema, or a list of them.
func eachElement(value any) any {
	list, is := value.([]any)
	if !is {
		return withoutProse(value)
	}
	short := make([]any, len(list))
	for i, schema := range list {
		short[i] = withoutProse(schema)
	}
	return short
}
