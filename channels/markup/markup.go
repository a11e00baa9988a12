// Package markup makes styled text of the Markdown of an answer, and cuts it into pieces that a chat network takes. The
// package of a network writes a piece in the markup of its platform.
//
// It promises:
//
//   - The pieces of a text have all its words, in their order. A piece begins where the last one ended, by a place in
//     the source: the place of a receipt.
//   - No piece is larger than asked, in the platform's own unit.
//   - A style that goes on over a cut goes on in the next piece. So do code, quotes and links.
//   - Time and memory are bounded for every text. A text of more than [MaxText] bytes is shown as it is written.
package markup

import (
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/markdown"
)

// MaxText is how many bytes of a text are read as Markdown.
const MaxText = 256 << 10

// Style is how text looks.
type Style uint8

const (
	Bold Style = 1 << iota
	Italic
	Struck
	Code // a few words of code
)

// Span is text of one look.
type Span struct {
	Text  string
	Style Style
	Link  string // the address that the text leads to; empty: none
	// Quote and Block number the quote and the block that the text stands in; 0: none. A block is lines of code, or a
	// table: in columns, as they are.
	Quote, Block int
	Lang         string // of a block of code: its language, if it is named
}

// Document is a text with its looks.
type Document struct {
	source string
	spans  []placed
}

// placed is a span that knows where in the source it stands.
type placed struct {
	Span
	at int // the place of what it shows; it never goes back from one span to the next
	// exact says that the text is the source's own from there on, so that it can be cut at any place
	exact bool
}

var parser = sync.OnceValue(markdown.New)

// Of is the text of a message with its looks. A reply is Markdown. A notice is shown as it is written: it quotes what a
// call would do, and Markdown would hide a part of that.
func Of(kind corebot.Kind, source string) Document {
	if kind == corebot.KindReply {
		return Parse(source)
	}
	return Plain(source)
}

// Parse reads an answer.
func Parse(source string) Document {
	if len(source) > MaxText {
		return Plain(source)
	}
	w := writer{source: []byte(source)}
	w.blocks(parser().Parse(w.source), true)
	if blank(w.spans) { // such as definitions alone
		return Plain(source)
	}
	return Document{source, w.spans}
}

// Plain is a text as it is written.
func Plain(source string) Document {
	return Document{source, []placed{{Span: Span{Text: source}, exact: true}}}
}
