// Package markdown parses the Markdown of answers: CommonMark with tables, strikethrough, tasks and bare addresses.
// Code that draws a page or sends a message walks over the tree.
//
// Nothing is decoded: HTML and entities are text as any other. Time and memory are bounded for every text. Containers
// that are nested deeper than [MaxNesting], and marks of a text that has used up its allowance of work ([MaxWork]), are
// text.
package markdown
