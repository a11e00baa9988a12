package terms

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxPhrases = 32 // of a query; further ones do not count
	maxWords   = 64 // terms of one phrase, or of a loose query
)

// Phrase is what a text must have in one piece.
type Phrase struct {
	Terms  []string
	Prefix bool // the last term may be the beginning of a longer one
}

// Query is what to look for. The zero Query finds nothing.
type Query struct {
	Phrases []Phrase
	Text    string // as it was typed
	Quoted  bool   // a part of it stands in quotes: its words are meant
}

// Parse reads what a person or a model typed: words, each of which must occur, and "words in quotes", which must stand
// together. Every string is a query; one without anything that can be searched for has no phrases.
func Parse(text string) Query {
	q := Query{Text: text}
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			before := len(q.Phrases)
			q.add(part)
			q.Quoted = q.Quoted || len(q.Phrases) > before
			continue
		}
		for w := range strings.FieldsSeq(part) {
			q.add(w)
		}
	}
	return q
}

func (q *Query) add(text string) {
	p := phraseOf(text)
	if len(p.Terms) == 0 || len(q.Phrases) >= maxPhrases || slices.ContainsFunc(q.Phrases, p.equal) {
		return
	}
	q.Phrases = append(q.Phrases, p)
}

// minPrefix is how many letters a word must have to find longer ones.
const minPrefix = 3

// phraseOf reads a phrase. In a text its last run of characters may go on, so that there need not be a term for the
// last of them.
func phraseOf(text string) Phrase {
	var p Phrase
	end := word
	for t := range All(text) {
		if len(p.Terms) == maxWords {
			break
		}
		p.Terms, end = append(p.Terms, t.Text), t.kind
	}
	switch n := len(p.Terms); {
	case n == 0:
	case end == last:
		p.Terms = p.Terms[:n-1]
	case end == alone:
		p.Prefix = true
	case end == word:
		p.Prefix = utf8.RuneCountInString(p.Terms[n-1]) >= minPrefix
	}
	return p
}

func (p Phrase) equal(o Phrase) bool { return p.Prefix == o.Prefix && slices.Equal(p.Terms, o.Terms) }

// Loose takes the phrases of a query apart: what has any of its terms has a part of the query.
func (q Query) Loose() Query {
	var loose Query
	for _, p := range q.Phrases {
		for i, term := range p.Terms {
			one := Phrase{Terms: []string{term}, Prefix: p.Prefix && i == len(p.Terms)-1}
			if len(loose.Phrases) < maxWords && !slices.ContainsFunc(loose.Phrases, one.equal) {
				loose.Phrases = append(loose.Phrases, one)
			}
		}
	}
	return loose
}

// Found is where a query stands in a text.
type Found struct {
	Phrases    int // how many of the query's
	Start, End int // of the first of them, in bytes
}

// In looks for the phrases of a query in a text.
func (q Query) In(text string) (f Found) {
	all := slices.Collect(All(text))
	for _, p := range q.Phrases {
		at := p.in(all)
		if at < 0 {
			continue
		}
		if f.Phrases == 0 || all[at].Start < f.Start {
			f.Start, f.End = all[at].Start, all[at+len(p.Terms)-1].End
		}
		f.Phrases++
	}
	return f
}

// in is the place of the first term of the phrase, or -1.
func (p Phrase) in(all []Term) int {
	for i := range all {
		if p.at(all[i:]) {
			return i
		}
	}
	return -1
}

// at says whether terms begin with the phrase.
func (p Phrase) at(all []Term) bool {
	if len(all) < len(p.Terms) {
		return false
	}
	for i, want := range p.Terms {
		got := all[i].Text
		if got != want && !(p.Prefix && i == len(p.Terms)-1 && strings.HasPrefix(got, want)) {
			return false
		}
	}
	return true
}
