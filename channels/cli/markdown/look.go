package markdown

// style is what a piece of text looks like: some of the bits below.
type style uint16

const (
	bold style = 1 << iota
	faint
	italic
	struck
	heading
	code
	address // an address: never broken where it can be helped
	comment // of code in a known language, like the styles below
	literal // a string, or what a diff adds
	number
	keyword
	removed // by a diff
)

// look draws styles, in the sixteen colors that a terminal's own theme defines and without backgrounds, so that every
// theme stays readable.
type look struct{ noColor bool }

// paint appends text to out in a style, and ends the style.
func (l look) paint(out, text []byte, s style) []byte {
	if l.noColor || s == 0 || len(text) == 0 {
		return append(out, text...)
	}
	out = append(out, '\x1b')
	between := byte('[')
	for bit, parameters := range [...]string{"1", "2", "3", "9", "34", "33", "4;34", "2", "32", "36", "35", "31"} {
		if s&(1<<bit) != 0 {
			out = append(out, between)
			out = append(out, parameters...)
			between = ';'
		}
	}
	out = append(out, 'm')
	out = append(out, text...)
	return append(out, "\x1b[m"...)
}

// mark is what stands for a style where there is no color.
func (l look) mark(s string) string {
	if l.noColor {
		return s
	}
	return ""
}
