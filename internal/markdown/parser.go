package markdown

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Limits of what is parsed. The parser compares each open block with each line. From each mark of a block it looks
// through the rest of the block. Both take time in the square of the length, and only hostile texts make it long.
const (
	MaxNesting     = 16       // open containers; a list counts twice, for itself and its item
	MaxWork        = 64 << 20 // the sum, over all inline marks, of the length of their block in bytes
	MaxDefinitions = 64       // lines of a paragraph that may begin with definitions of links
)

// Parser parses texts. Several goroutines can use it.
type Parser struct{ p parser.Parser }

// New makes a parser without HTML, which answers mean as text: "List<String>" is no tag in a chat, "<std::string>" no
// address.
func New() *Parser {
	return &Parser{parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), 100),
			util.Prioritized(parser.NewThematicBreakParser(), 200),
			util.Prioritized(container{parser.NewListParser()}, 300),
			util.Prioritized(parser.NewListItemParser(), 400),
			util.Prioritized(parser.NewCodeBlockParser(), 500),
			util.Prioritized(parser.NewATXHeadingParser(), 600),
			util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
			util.Prioritized(container{parser.NewBlockquoteParser()}, 800),
			util.Prioritized(parser.NewParagraphParser(), 1000),
		),
		parser.WithInlineParsers(
			util.Prioritized(metered{parser.NewCodeSpanParser()}, 100),
			util.Prioritized(metered{parser.NewLinkParser()}, 200),
			util.Prioritized(metered{parser.NewEmphasisParser()}, 500),
			util.Prioritized(metered{strikethroughParser{}}, 600),
			util.Prioritized(bareLinkParser{}, 700),
		),
		parser.WithParagraphTransformers(
			util.Prioritized(taskTransformer{}, 50),
			util.Prioritized(definitions{parser.LinkReferenceParagraphTransformer}, 100),
			util.Prioritized(tableTransformer{}, 200),
		),
	)}
}

// Parse reads a text.
func (p *Parser) Parse(source []byte) ast.Node { return p.p.Parse(text.NewReader(source)) }

// Unescaped takes away the backslashes that kept punctuation from being a mark.
func Unescaped(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return util.UnescapePunctuations(text)
}

// container is a parser of blocks in blocks that stops at a depth.
type container struct{ parser.BlockParser }

func (c container) Open(parent ast.Node, reader text.Reader, pc parser.Context) (ast.Node, parser.State) {
	if len(pc.OpenedBlocks()) >= MaxNesting {
		return nil, parser.NoChildren
	}
	return c.BlockParser.Open(parent, reader, pc)
}

// metered is a parser of inline marks that stops when the text has used up its allowance.
type metered struct{ parser.InlineParser }

// workKey is where the context of a text keeps what its marks have cost. It never changes: the parser hands out such
// keys once.
var workKey = parser.NewContextKey()

func (m metered) Parse(block ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	work, _ := pc.Get(workKey).(int)
	work += length(block.Lines())
	if work > MaxWork {
		return nil
	}
	pc.Set(workKey, work)
	return m.InlineParser.Parse(block, reader, pc)
}

// CloseBlock passes the end of a block on to the parsers that wait for it.
func (m metered) CloseBlock(block ast.Node, reader text.Reader, pc parser.Context) {
	if c, ok := m.InlineParser.(parser.CloseBlocker); ok {
		c.CloseBlock(block, reader, pc)
	}
}

func length(s *text.Segments) int {
	if s.Len() == 0 {
		return 0
	}
	return s.At(s.Len()-1).Stop - s.At(0).Start
}

// definitions takes the definitions of links out of paragraphs, which costs the square of their lines.
type definitions struct{ parser.ParagraphTransformer }

func (d definitions) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	if p.Lines().Len() <= MaxDefinitions {
		d.ParagraphTransformer.Transform(p, reader, pc)
	}
}
