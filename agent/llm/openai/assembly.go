package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// errStreamEnd is the end of a stream that said how it finished.
var errStreamEnd = errors.New("the stream has ended")

// assembly puts an answer together from the events of its stream.
type assembly struct {
	onText   func(string)
	room     int // bytes of text, thinking, names and arguments that are still allowed
	text     strings.Builder
	filter   thinkFilter
	thinking strings.Builder // what came as reasoning_content, which its provider wants back while tools run
	hidden   strings.Builder // thinking that stood in the text, between tags
	calls    []*draft
	finish   api.FinishReason
	model    string
	usage    *api.Usage
	received bool
	sent     bool // the provider has the whole request
}

// draft is a tool call that is still arriving.
type draft struct {
	index int
	id    string
	name  string
	args  strings.Builder
}

// chunk has the fields of a piece of the stream that Corebot uses. Some gateways send an error in its place. go-openai
// decodes all fields, which takes twice the time for each word of a model.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Index        int              `json:"index"`
		Delta        delta            `json:"delta"`
		FinishReason api.FinishReason `json:"finish_reason"`
	} `json:"choices"`
	Usage *api.Usage      `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type delta struct {
	Content          string         `json:"content"`
	Refusal          string         `json:"refusal"`
	ReasoningContent string         `json:"reasoning_content"`
	ToolCalls        []api.ToolCall `json:"tool_calls"`
}

func newAssembly(maxBytes int, onText func(string)) *assembly {
	if onText == nil {
		onText = func(string) {}
	}
	return &assembly{onText: onText, room: maxBytes}
}

// rawStream is what an assembly needs of go-openai's stream.
type rawStream interface {
	RecvRaw() ([]byte, error)
}

// next reads one event and adds it to the answer. At the end of the stream it returns errStreamEnd if the answer is
// whole, exchange.ErrEmpty if nothing came, and exchange.ErrBrokenOff otherwise.
func (a *assembly) next(s rawStream) error {
	raw, err := s.RecvRaw()
	if errors.Is(err, io.EOF) {
		switch {
		case a.finish != "":
			return errStreamEnd
		case !a.received:
			return exchange.ErrEmpty
		}
		return exchange.ErrBrokenOff
	}
	if err != nil {
		return err
	}
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("%w: %v", exchange.ErrGarbled, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return streamError(c.Error)
	}
	a.received = true
	return a.take(c)
}

// streamError reads the error of a chunk. An error that is not in the shape of OpenAI's becomes the message as it came.
func streamError(raw json.RawMessage) error {
	var e api.APIError
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		e = api.APIError{Message: string(raw)}
	}
	return &e
}

func (a *assembly) take(c chunk) error {
	if c.Model != "" {
		a.model = c.Model
	}
	if c.Usage != nil {
		a.usage = c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		if err := a.takeDelta(choice.Delta); err != nil {
			return err
		}
		for _, d := range choice.Delta.ToolCalls {
			if err := a.takeCall(d); err != nil {
				return err
			}
		}
		if f := choice.FinishReason; f != "" && f != api.FinishReasonNull {
			a.finish = f
		}
	}
	return nil
}

func (a *assembly) takeDelta(d delta) error {
	if err := a.spend(len(d.Content) + len(d.Refusal) + len(d.ReasoningContent)); err != nil {
		return err
	}
	a.thinking.WriteString(d.ReasoningContent)
	text := a.filter.take(d.Content)
	if a.filter.state == inThinking || a.filter.state == behindThinking {
		a.hidden.WriteString(d.Content)
	}
	a.takeText(text + d.Refusal)
	return nil
}

// thought is what the model wrote beside its text and calls.
func (a *assembly) thought() string { return a.thinking.String() + a.hidden.String() }

func (a *assembly) takeText(s string) {
	if s != "" {
		a.text.WriteString(s)
		a.onText(s)
	}
}

func (a *assembly) spend(n int) error {
	if a.room -= n; a.room < 0 {
		return exchange.ErrTooLong
	}
	return nil
}

// callCost is what a tool call counts beside its bytes: an endless row of empty calls must end, too.
const callCost = 64

func (a *assembly) takeCall(d api.ToolCall) error {
	c := a.draftFor(d)
	if c == nil {
		c = &draft{index: len(a.calls)}
		if d.Index != nil {
			c.index = *d.Index
		}
		a.calls = append(a.calls, c)
		if err := a.spend(callCost); err != nil {
			return err
		}
	}
	if err := a.spend(len(d.Function.Name) + len(d.Function.Arguments)); err != nil {
		return err
	}
	if c.id == "" {
		c.id = d.ID
	}
	if c.name != d.Function.Name { // some servers repeat the whole name in each fragment
		c.name += d.Function.Name
	}
	c.args.WriteString(d.Function.Arguments)
	return nil
}

// draftFor finds the call that a fragment continues: the newest with its index, or the newest of all where a server
// sends no index. A fragment with a name and an id of its own continues no call: some servers send whole
// calls, all of them with index 0.
func (a *assembly) draftFor(d api.ToolCall) *draft {
	for _, c := range slices.Backward(a.calls) {
		if d.Index != nil && c.index != *d.Index {
			continue
		}
		if d.ID != "" && c.id != "" && d.ID != c.id && d.Function.Name != "" {
			return nil
		}
		return c
	}
	return nil
}

// contentFilterNote ends an answer that the provider's content filter cut off.
const contentFilterNote = "\n\n[The answer was cut off here by the provider's content filter.]"

// answer is the whole answer, with names decoded. It is called once, after the stream has ended.
func (a *assembly) answer(r llm.Request, names *llm.Names, model string) (corebot.Answer, error) {
	a.takeText(a.filter.rest())
	empty := a.text.Len() == 0 && len(a.calls) == 0
	switch a.finish {
	case "error":
		return corebot.Answer{}, exchange.ErrBrokenOff
	case api.FinishReasonLength:
		if empty {
			return corebot.Answer{}, exchange.ErrNoRoom
		}
		a.addNote(exchange.OutputLimitNote)
	case api.FinishReasonContentFilter:
		if empty {
			return corebot.Answer{}, exchange.ErrFiltered
		}
		a.addNote(contentFilterNote)
	}
	answer := corebot.Answer{Text: a.text.String(), Calls: a.toolCalls(r, names), Model: cmp.Or(a.model, model)}
	if len(answer.Calls) > 0 {
		answer.Opaque = seal(model, a.thinking.String())
	}
	return answer, nil
}

// addNote ends a text with a note. An answer with calls gets none: the arguments of a call that was cut off show it.
func (a *assembly) addNote(s string) {
	if a.text.Len() > 0 && len(a.calls) == 0 {
		a.text.WriteString(s)
		a.onText(s)
	}
}

func (a *assembly) toolCalls(r llm.Request, names *llm.Names) []corebot.ToolCall {
	var last *draft // of an answer that was cut
	if n := len(a.calls); n > 0 && (a.finish == api.FinishReasonLength || a.finish == api.FinishReasonContentFilter) {
		last = a.calls[n-1]
	}
	slices.SortStableFunc(a.calls, func(x, y *draft) int { return x.index - y.index })
	ids := llm.NewCallIDs(r)
	var calls []corebot.ToolCall
	for _, d := range a.calls {
		args := llm.WrittenArgs(d.args.String())
		if d == last {
			args = llm.CutArgs(d.args.String())
		}
		calls = append(calls, corebot.ToolCall{ID: ids.Give(d.id), Tool: names.Decode(d.name), Args: args})
	}
	return calls
}
