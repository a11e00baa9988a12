package openai

import (
	"encoding/json"
	"strings"

	"github.com/corebot/corebot"
)

// Servers that do not know how a model marks its thinking leave it in the text, at the very beginning, between these.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// thinkFilter takes a block of thinking off the beginning of a text that arrives in pieces. Tags anywhere else are
// text: a model may well write about them.
type thinkFilter struct {
	state thinkState
	held  string // what cannot be told from the beginning of a tag yet
}

type thinkState uint8

const (
	atBeginning thinkState = iota
	inThinking
	behindThinking // only white space so far
	inText
)

// take gives what is text for certain.
func (f *thinkFilter) take(piece string) string {
	if f.state == inText {
		return piece
	}
	f.held += piece
	for {
		before := f.state
		text := f.step()
		if text != "" || f.state == before {
			return text
		}
	}
}

// step looks at what is held and may change the state once.
func (f *thinkFilter) step() string {
	switch f.state {
	case atBeginning:
		begin := strings.TrimLeft(f.held, " \t\r\n")
		if after, is := strings.CutPrefix(begin, thinkOpen); is {
			f.state, f.held = inThinking, after
		} else if !strings.HasPrefix(thinkOpen, begin) {
			f.state = inText
			return f.release()
		}
	case inThinking:
		if _, after, is := strings.Cut(f.held, thinkClose); is {
			f.state, f.held = behindThinking, after
		} else {
			f.held = f.held[max(0, len(f.held)-len(thinkClose)+1):] // the rest is thinking for certain
		}
	case behindThinking:
		if f.held = strings.TrimLeft(f.held, " \t\r\n"); f.held != "" {
			f.state = inText
			return f.release()
		}
	}
	return ""
}

func (f *thinkFilter) release() string {
	text := f.held
	f.held = ""
	return text
}

// rest is what is text after all because nothing came any more.
func (f *thinkFilter) rest() string {
	if f.state == atBeginning {
		return f.release()
	}
	return ""
}

// seal keeps thinking for the provider that streamed it apart from the text: some refuse the results of tools without
// it.
func seal(model, thinking string) *corebot.Opaque {
	if thinking == "" {
		return nil
	}
	data, err := json.Marshal(thinking)
	if err != nil {
		return nil
	}
	return &corebot.Opaque{Source: source(model), Data: data}
}

// unseal gives back only what came from the same model.
func unseal(model string, o *corebot.Opaque) string {
	var thinking string
	if o == nil || o.Source != source(model) || json.Unmarshal(o.Data, &thinking) != nil {
		return ""
	}
	return thinking
}

func source(model string) string { return "openai:" + model }
