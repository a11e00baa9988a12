package anthropic

import (
	"encoding/json"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// sealedBlock is one block of an answer as it is kept for the rest of its turn. Blocks come back in the order in which
// they came: between two blocks of thinking there may be text or a call. The calls themselves are kept with the answer;
// here is only their place.
type sealedBlock struct {
	Kind      string `json:"kind"`
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// seal keeps the blocks of an answer if there is thinking among them; else the answer's own text and calls say all.
func seal(model string, blocks []*draft) *corebot.Opaque {
	var sealed []sealedBlock
	thought := false
	for _, d := range blocks {
		b := sealedBlock{Kind: d.kind, Signature: d.signature}
		switch d.kind {
		case kindThinking, kindRedacted:
			thought = true
			b.Text = d.text.String()
		case kindText:
			b.Text = d.text.String()
		case kindCall:
		default:
			continue
		}
		sealed = append(sealed, b)
	}
	if !thought {
		return nil
	}
	data, err := json.Marshal(sealed)
	if err != nil {
		return nil
	}
	return &corebot.Opaque{Source: sourceOf(model), Data: data}
}

// unseal gives back only what came from the same model and fits the calls that are in the message.
func unseal(model string, msg llm.Message) ([]sealedBlock, bool) {
	var blocks []sealedBlock
	if msg.Opaque == nil || msg.Opaque.Source != sourceOf(model) || json.Unmarshal(msg.Opaque.Data, &blocks) != nil {
		return nil, false
	}
	calls := 0
	for _, b := range blocks {
		if b.Kind == kindCall {
			calls++
		}
	}
	return blocks, calls == len(msg.Calls)
}

func sourceOf(model string) string { return "anthropic:" + model }

// reopen makes the blocks of an answer as they came.
func reopen(blocks []sealedBlock, calls []block) []block {
	var out []block
	for _, b := range blocks {
		switch b.Kind {
		case kindThinking:
			out = append(out, block{Type: kindThinking, Thinking: &b.Text, Signature: &b.Signature})
		case kindRedacted:
			out = append(out, block{Type: kindRedacted, Data: &b.Text})
		case kindText:
			if b.Text != "" {
				out = append(out, textBlock(b.Text))
			}
		case kindCall:
			out, calls = append(out, calls[0]), calls[1:]
		}
	}
	return out
}
