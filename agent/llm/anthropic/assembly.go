package anthropic

import (
	"cmp"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// assembly puts an answer together from the events of its stream.
type assembly struct {
	onText   func(string)
	room     int // bytes of text, thinking, names and arguments that are still allowed
	blocks   []*draft
	stopped  string
	model    string
	usage    corebot.Usage
	received bool
	sent     bool // the provider has the whole request
}

// draft is a block that is still arriving.
type draft struct {
	index     int64
	kind      string
	text      strings.Builder // of a text; the arguments of a call; the thinking; the data of redacted thinking
	signature string
	id, name  string
}

// blockCost is what a block counts beside its bytes: an endless row of empty blocks must end, too.
const blockCost = 64

func newAssembly(maxBytes int, onText func(string)) *assembly {
	if onText == nil {
		onText = func(string) {}
	}
	return &assembly{onText: onText, room: maxBytes}
}

// take adds one event of the stream to the answer. It ignores events of unknown types.
func (a *assembly) take(e event) error {
	switch e.Type {
	case "message_start":
		a.received = true
		a.model = e.Message.Model
		a.countUsage(e.Message.Usage)
	case "content_block_start":
		a.received = true
		return a.begin(e.Index, e.Block)
	case "content_block_delta":
		a.received = true
		return a.appendPiece(e.Index, e.Delta)
	case "message_delta":
		a.stopped = cmp.Or(e.Delta.StopReason, a.stopped)
		a.countUsage(e.Usage)
		a.usage.OutputTokens = max(a.usage.OutputTokens, e.Usage.Output) // the figure of each event is the sum so far
	}
	return nil
}

// countUsage keeps the figures of one event. The API counts input tokens that the cache gave or stored beside the other
// input; [corebot.Usage] counts them as part of the input. The last event of a stream can repeat the figures of the
// first, or leave them out, so the larger figure counts.
func (a *assembly) countUsage(u usage) {
	a.usage.CacheReadTokens = max(a.usage.CacheReadTokens, u.CacheRead)
	a.usage.CacheWriteTokens = max(a.usage.CacheWriteTokens, u.CacheWrite)
	if u.Input > 0 {
		a.usage.InputTokens = max(a.usage.InputTokens, u.Input+a.usage.CacheReadTokens+a.usage.CacheWriteTokens)
	}
}

func (a *assembly) spend(n int) error {
	if a.room -= n; a.room < 0 {
		return exchange.ErrTooLong
	}
	return nil
}

func (a *assembly) begin(index int64, b begun) error {
	d := &draft{index: index, kind: b.Type, id: b.ID, name: b.Name, signature: b.Signature}
	if err := a.spend(blockCost + len(b.ID) + len(b.Name) + len(b.Signature)); err != nil {
		return err
	}
	a.blocks = append(a.blocks, d)
	return a.extend(d, b.Text+b.Thinking+b.Data)
}

// appendPiece adds to the newest block with the index.
func (a *assembly) appendPiece(index int64, piece delta) error {
	for i := len(a.blocks) - 1; i >= 0; i-- {
		if d := a.blocks[i]; d.index == index {
			d.signature += piece.Signature
			if err := a.spend(len(piece.Signature)); err != nil {
				return err
			}
			return a.extend(d, piece.Text+piece.Thinking+piece.PartialJSON)
		}
	}
	return exchange.ErrGarbled // a piece of a block that never began
}

func (a *assembly) extend(d *draft, piece string) error {
	if piece == "" {
		return nil
	}
	if err := a.spend(len(piece)); err != nil {
		return err
	}
	d.text.WriteString(piece)
	if d.kind == kindText {
		a.onText(piece)
	}
	return nil
}

// answer is the whole answer, with names decoded. It is called once, after the stream has ended.
func (a *assembly) answer(r llm.Request, names *llm.Names, model string) (corebot.Answer, error) {
	answer := corebot.Answer{Text: a.textSoFar(), Calls: a.calls(r, names), Model: cmp.Or(a.model, model)}
	switch a.stopped {
	case stopRefusal:
		return corebot.Answer{}, exchange.ErrRefusal
	case stopMaxTokens, stopContextFull:
		if answer.Text == "" && len(answer.Calls) == 0 {
			return corebot.Answer{}, exchange.ErrNoRoom
		}
		if len(answer.Calls) == 0 { // calls that were cut show it by their arguments
			answer.Text += exchange.OutputLimitNote
			a.onText(exchange.OutputLimitNote)
		}
	}
	if len(answer.Calls) > 0 {
		answer.Opaque = seal(model, a.blocks)
	}
	return answer, nil
}

func (a *assembly) textSoFar() string {
	var text strings.Builder
	for _, d := range a.blocks {
		if d.kind == kindText {
			text.WriteString(d.text.String())
		}
	}
	return text.String()
}

// thought is what the model wrote beside its text and calls, so that its tokens can be estimated. Redacted thinking
// comes encrypted; the encrypted text stands for it.
func (a *assembly) thought() string {
	var thought strings.Builder
	for _, d := range a.blocks {
		if d.kind == kindThinking || d.kind == kindRedacted {
			thought.WriteString(d.text.String())
		}
	}
	return thought.String()
}

func (a *assembly) calls(r llm.Request, names *llm.Names) []corebot.ToolCall {
	ids := llm.NewCallIDs(r)
	var calls []corebot.ToolCall
	cut := a.stopped == stopMaxTokens || a.stopped == stopContextFull
	for i, d := range a.blocks {
		if d.kind != kindCall {
			continue
		}
		args := llm.WrittenArgs(d.text.String())
		if cut && i == len(a.blocks)-1 {
			args = llm.CutArgs(d.text.String())
		}
		calls = append(calls, corebot.ToolCall{ID: ids.Give(d.id), Tool: names.Decode(d.name), Args: args})
	}
	return calls
}
