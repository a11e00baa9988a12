package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// The parser's own extensions bring an HTML renderer and a dozen regular expressions, which slow down every start of
// the program. And its tables fill short rows with cells without end. These are what answers need of them.

// strikethroughParser reads ~~text~~. A single tilde is left alone: in answers it means "about". So are three.
type strikethroughParser struct{}

// Trigger names the byte that strikethroughs begin and end with.
func (strikethroughParser) Trigger() []byte { return []byte{'~'} }

// Parse takes the delimiter that the reader is at; the parser pairs it with another.
func (s strikethroughParser) Parse(_ ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	line, segment := reader.PeekLine()
	before := reader.PrecendingCharacter()
	d := parser.ScanDelimiter(line, before, 2, s)
	if d == nil || d.OriginalLength != 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + d.OriginalLength)
	reader.Advance(d.OriginalLength)
	pc.PushDelimiter(d)
	return d
}

// IsDelimiter says whether b is a byte of the delimiter.
func (strikethroughParser) IsDelimiter(b byte) bool { return b == '~' }

// CanOpenCloser says whether the two delimiters are a pair.
func (strikethroughParser) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

// OnMatch returns the node for what is between the two.
func (strikethroughParser) OnMatch(int) ast.Node { return extast.NewStrikethrough() }

// bareLinkParser reads addresses that stand in the text without brackets, so that marks in them (~, _) are not taken
// for styles.
type bareLinkParser struct{}

// beforeAddress are the bytes that an address may follow.
const beforeAddress = ` (<"':`

// Trigger names those bytes. The blank stands for the begin of a line and the end of another mark too.
func (bareLinkParser) Trigger() []byte { return []byte(beforeAddress) }

// Parse takes the address that the reader is at, or one byte before.
func (bareLinkParser) Parse(parent ast.Node, reader text.Reader, pc parser.Context) ast.Node {
	line, segment := reader.PeekLine()
	before := 0
	if strings.IndexByte(beforeAddress, line[0]) >= 0 {
		before = 1
	}
	n := addressLength(line[before:])
	if n == 0 || pc.IsInLinkLabel() {
		return nil
	}
	start := segment.Start + before
	if before > 0 {
		ast.MergeOrAppendTextSegment(parent, segment.WithStop(start))
	}
	reader.Advance(before + n)
	return ast.NewAutoLink(ast.AutoLinkURL, ast.NewTextSegment(text.NewSegment(start, start+n)))
}

// addressLength returns the length of the address that line begins with, or 0. Punctuation at its end belongs to the
// sentence, and so does a closing parenthesis that was not opened in it.
func addressLength(line []byte) int {
	scheme := 0
	for _, s := range []string{"https://", "http://"} {
		if bytes.HasPrefix(line, []byte(s)) {
			scheme = len(s)
		}
	}
	if scheme == 0 {
		return 0
	}
	n, unopened := scheme, 0
	for ; n < len(line) && ' ' < line[n] && line[n] <= '~' && !strings.ContainsRune("<>\"`\\|", rune(line[n])); n++ {
		switch line[n] {
		case '(':
			unopened--
		case ')':
			unopened++
		}
	}
	for ; n > scheme; n-- {
		last := line[n-1]
		switch {
		case last == ')' && unopened > 0:
			unopened--
		case !strings.ContainsRune(".,:;!?*_~'", rune(last)):
			return n
		}
	}
	return 0
}

// taskTransformer takes the box off a task ("- [x] text") and puts it down as an attribute of the list's item.
type taskTransformer struct{}

const taskBox = "box" // the attribute: its value is the box, as written

// Box is the box of a task, as written, if the item of a list is one.
func Box(item ast.Node) (box string, is bool) {
	value, is := item.AttributeString(taskBox)
	if is {
		box = value.(string)
	}
	return box, is
}

// Transform looks whether p begins a task.
func (taskTransformer) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	item, ok := p.Parent().(*ast.ListItem)
	if !ok || item.FirstChild() != ast.Node(p) || item.Parent().(*ast.List).IsOrdered() {
		return
	}
	first := p.Lines().At(0)
	line := first.Value(reader.Source())
	for _, box := range []string{"[ ]", "[x]", "[X]"} {
		if !bytes.HasPrefix(line, []byte(box+" ")) {
			continue
		}
		rest, all := first.WithStart(first.Start+len(box)+1), p.Lines()
		switch {
		case len(bytes.TrimSpace(rest.Value(reader.Source()))) > 0:
			all.Set(0, rest)
		case all.Len() > 1: // the parser panics at a line of nothing
			all.SetSliced(1, all.Len())
		default:
			return
		}
		item.SetAttributeString(taskBox, box)
		return
	}
}
