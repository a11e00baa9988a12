// Package markdown lays out the answers of a model for a terminal. It draws headings, lists that hang under their
// marks, quotes behind a bar, tables whose columns fit, and links as "text (address)". It reads CommonMark with tables,
// strikethrough, tasks and bare addresses.
//
// What holds for every text, however it was made:
//   - The page consists of pieces of the text, a handful of marks (•, │, ─, brackets, numbers), blanks, line ends, and
//     color sequences (ESC [ numbers m). Nothing is decoded, HTML and entities least of all: they are shown as they are
//     written, so a text without control characters becomes a page without any. Making the text harmless comes before
//     and is the caller's business.
//   - No color sequence is open at the end of a line: lines can be printed apart from each other.
//   - No line is wider than asked for, but for two kinds that are worth more in one piece: lines of code, and
//     addresses.
//   - Time and memory are bounded: see [github.com/corebot/corebot/internal/markdown], which parses.
//
// Without color the marks of Markdown stay where a style would have taken their place, so that nothing is lost.
//
// Not done: footnotes, definition lists, and the titles of links. A link's definition ([name]: address) is shown where
// it is used. The only column is the left one: there is no justified text, and right-to-left text is left to the
// terminal.
package markdown
