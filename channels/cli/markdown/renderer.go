package markdown

import "github.com/corebot/corebot/internal/markdown"

const (
	// MaxText is how many bytes of text are laid out.
	MaxText = 128 << 10
	// MinWidth is the width, in columns, below which nothing can be laid out.
	MinWidth = 16
)

// Options of a [Renderer].
type Options struct {
	NoColor bool // no color sequences: the marks of Markdown stay instead
}

// Renderer lays out texts. It may be used by several goroutines.
type Renderer struct {
	parser *markdown.Parser
	look   look
}

// New returns a Renderer.
func New(o Options) *Renderer {
	return &Renderer{parser: markdown.New(), look: look{noColor: o.NoColor}}
}

// Render returns the page: lines of width columns, each ended by a line feed. It returns false if text is longer than
// [MaxText] or width less than [MinWidth]; such a text is shown as it is.
//
// text is UTF-8 without control characters and tabs, but for line feeds.
func (r *Renderer) Render(s string, width int) (string, bool) {
	if len(s) > MaxText || width < MinWidth {
		return "", false
	}
	source := []byte(s)
	p := page{look: r.look, source: source, width: width, out: make([]byte, 0, len(s)+len(s)/4)}
	p.blocks(r.parser.Parse(source), true)
	return string(p.out), true
}
