package officetext

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// words reads paragraphs of runs of text. A document and a slide have the same elements under two prefixes.
func (b *book) words(name, prefix string) error {
	inside, run, cells := false, false, 0
	return b.walk(name, func(t tag) error {
		switch strings.TrimPrefix(t.name, prefix) {
		case "t":
			inside = t.begins && !t.ends
		case "r":
			run = t.begins && !t.ends
		case "tab": // outside of a run it is a place to which a tab goes
			if t.begins && run {
				return b.say("\t")
			}
		case "br", "cr":
			if t.begins {
				return b.say("\n")
			}
		case "tc":
			if t.begins && !t.ends {
				cells++
			} else if t.ends {
				cells = max(cells-1, 0)
				return b.say("\t")
			}
		case "tr":
			if t.ends {
				return b.say("\n")
			}
		case "p":
			if t.ends && cells > 0 {
				return b.say(" ")
			} else if t.ends {
				return b.say("\n")
			}
		}
		return nil
	}, func(text string) error {
		if inside {
			return b.say(text)
		}
		return nil
	})
}

// open reads a text, a sheet or slides of OpenDocument: the paragraphs and headings of one file.
func (b *book) open() error {
	depth, cells := 0, 0
	return b.walk("content.xml", func(t tag) error {
		switch t.name {
		case "text:p", "text:h":
			if t.begins && !t.ends {
				depth++
			}
			if t.ends {
				if t.begins = false; depth > 0 {
					depth--
				}
				if cells > 0 {
					return b.say(" ")
				}
				return b.say("\n")
			}
		case "text:tab":
			return b.say("\t")
		case "text:line-break":
			return b.say("\n")
		case "text:s":
			n, _ := strconv.Atoi(t.attrs["text:c"]) // without a number it is one
			return b.say(strings.Repeat(" ", min(max(n, 1), 100)))
		case "table:table":
			if t.begins && !t.ends && t.attrs["table:name"] != "" {
				return b.say(fmt.Sprintf("\n[table %q]\n", t.attrs["table:name"]))
			}
		case "table:table-cell":
			if t.begins && !t.ends {
				cells++
				return nil
			}
			if !t.begins {
				cells = max(cells-1, 0)
			}
			return b.say("\t")
		case "table:table-row":
			if t.ends {
				return b.say("\n")
			}
		}
		return nil
	}, func(text string) error {
		if depth > 0 {
			return b.say(text)
		}
		return nil
	})
}

// sheet is a sheet of a workbook: its name, and the file that it is in.
type sheet struct{ name, file string }

// maxShared bounds the texts that cells share.
const maxShared = 500_000

// sheets reads the sheets of a workbook, in their order: a line for each row, a tab between two cells.
func (b *book) sheets() error {
	files := map[string]string{} // by the id of the relation
	err := b.walk("xl/_rels/workbook.xml.rels", func(t tag) error {
		if t.name == "relationship" && t.begins && len(files) < maxParts {
			at := t.attrs["target"]
			if !strings.HasPrefix(at, "/") {
				at = "/xl/" + at
			}
			files[t.attrs["id"]] = strings.TrimPrefix(path.Clean(at), "/")
		}
		return nil
	}, ignore)
	if err != nil {
		return err
	}
	var all []sheet
	if err := b.walk("xl/workbook.xml", func(t tag) error {
		if t.name == "sheet" && t.begins && len(all) < maxParts {
			all = append(all, sheet{t.attrs["name"], files[t.attrs["r:id"]]})
		}
		return nil
	}, ignore); err != nil {
		return err
	}
	shared, err := b.shared()
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := b.say(fmt.Sprintf("\n[sheet %q]\n", s.name)); err != nil {
			return err
		}
		if err := b.rows(s.file, shared); err != nil {
			return err
		}
	}
	return nil
}

func ignore(string) error { return nil }

// shared reads the texts that cells name by a number. A hint how to read a word aloud is no text.
func (b *book) shared() (all []string, err error) {
	var text strings.Builder
	inside, aloud := false, false
	err = b.walk("xl/sharedStrings.xml", func(t tag) error {
		switch t.name {
		case "si":
			if t.ends && len(all) < maxShared {
				all = append(all, text.String())
			}
			text.Reset()
		case "t":
			inside = t.begins && !t.ends
		case "rph":
			aloud = t.begins && !t.ends
		}
		return nil
	}, func(s string) error {
		if inside && !aloud {
			text.WriteString(s)
		}
		return nil
	})
	return all, err
}

// rows reads one sheet.
func (b *book) rows(file string, shared []string) error {
	var kind string
	var value strings.Builder
	inside, column := false, 0
	return b.walk(file, func(t tag) error {
		switch t.name {
		case "row":
			if column = 0; t.ends {
				return b.say("\n")
			}
		case "c":
			if t.begins {
				kind = t.attrs["t"]
				value.Reset()
				at := columnOf(t.attrs["r"])
				if err := b.say(strings.Repeat("\t", min(max(at-column, 0), maxCells))); err != nil {
					return err
				}
				column = max(at, column)
			}
			if t.ends {
				return b.say(cell(kind, value.String(), shared))
			}
		case "v", "t":
			inside = t.begins && !t.ends
		}
		return nil
	}, func(text string) error {
		if inside {
			value.WriteString(text)
		}
		return nil
	})
}

// cell is what a cell shows.
func cell(kind, value string, shared []string) string {
	switch kind {
	case "s":
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 0 || n >= len(shared) {
			return ""
		}
		value = shared[n]
	case "b":
		value = map[string]string{"0": "FALSE", "1": "TRUE"}[value]
	}
	return strings.ReplaceAll(value, "\n", " ")
}

// columnOf is the number of the column in the name of a cell, such as 1 of B7; 0 of a name that is none.
func columnOf(name string) (n int) {
	for _, r := range strings.ToUpper(name) {
		if r < 'A' || r > 'Z' {
			break
		}
		if n = n*26 + int(r-'A') + 1; n > 20_000 {
			return 0
		}
	}
	return max(n-1, 0)
}
