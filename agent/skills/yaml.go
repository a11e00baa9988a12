package skills

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"github.com/corebot/corebot"
)

// maxDepth is how deep front matter may be nested. A metadata key of another program can be nested deeper than ours.
const maxDepth = 16

// maxLines is how many lines front matter may have: the scanner looks at all of a block text again with each of its
// lines.
const maxLines = 400

// entry is a key and what stands behind it.
type entry struct {
	key   string
	value ast.Node
	node  ast.Node
}

// parseMapping reads YAML that is one mapping at its top.
func parseMapping(front string) ([]entry, error) {
	return contained(func() ([]entry, error) {
		tokens, err := tokenize(front)
		if err != nil {
			return nil, err
		}
		file, err := parser.Parse(tokens, 0)
		if err != nil {
			return nil, explain(err)
		}
		if len(file.Docs) != 1 || file.Docs[0].Body == nil {
			return nil, fmt.Errorf("%w: it is empty, or several documents of YAML", corebot.ErrInvalid)
		}
		return mapping(file.Docs[0].Body)
	})
}

// contained makes an error of a panic: the parser is another's, earlier versions have panicked on bad input, and one
// page must not end Corebot.
func contained(parse func() ([]entry, error)) (entries []entry, err error) {
	defer func() {
		if r := recover(); r != nil {
			entries, err = nil, fmt.Errorf("%w: the YAML cannot be read", corebot.ErrInvalid)
		}
	}()
	return parse()
}

// tokenize gives the words of YAML, and refuses, before anything is built of them, those by which a small text becomes
// a large value.
func tokenize(front string) (token.Tokens, error) {
	if n := strings.Count(front, "\n") + strings.Count(front, "\r"); n > maxLines {
		return nil, fmt.Errorf("%w: it has %d lines, the limit is %d", corebot.ErrTooLarge, n, maxLines)
	}
	var s scanner.Scanner
	s.Init(front)
	var all token.Tokens
	for {
		some, err := s.Scan()
		all.Add(some...)
		if errors.Is(err, io.EOF) {
			return all, checkDepth(all)
		}
		for _, t := range some {
			switch t.Type {
			case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType:
				return nil, corebot.WithHint(fmt.Errorf("%w: line %d: %q: anchors, aliases, tags and directives are "+
					"not taken", corebot.ErrInvalid, lineOf(t), clip(t.Value)),
					"write it out; put a text that begins with & * ! or % in quotes")
			}
		}
		if err != nil { // the token says what is wrong; nothing is looked at behind it
			return all, checkDepth(all)
		}
	}
}

// checkDepth refuses what is nested deeper than maxDepth: the parser calls itself for each level.
func checkDepth(all token.Tokens) error {
	var open []level
	for i, t := range all {
		open = closed(open, t)
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, level{flow: true})
		case token.SequenceEntryType, token.MappingKeyType:
			open = append(open, level{column: columnOf(t)})
		case token.MappingValueType:
			key := all[max(i-1, 0)] // a mapping is as far to the right as its keys
			open = append(open, level{column: min(columnOf(key), columnOf(t))})
		}
		if len(open) > maxDepth {
			return fmt.Errorf("%w: line %d: it is nested more than %d deep", corebot.ErrTooLarge, lineOf(t), maxDepth)
		}
	}
	return nil
}

// level is one that is open: a bracket, or what is indented up to a column.
type level struct {
	flow   bool
	column int
}

// closed removes the levels that end at a token, and returns the open ones. In brackets a comma ends all levels up to
// the bracket. Outside of brackets a token ends each level that does not begin to its left.
func closed(open []level, t *token.Token) []level {
	last := func() level { return open[len(open)-1] }
	switch t.Type {
	case token.SequenceEndType, token.MappingEndType, token.CollectEntryType:
		for len(open) > 0 && !last().flow {
			open = open[:len(open)-1]
		}
		if t.Type != token.CollectEntryType && len(open) > 0 {
			open = open[:len(open)-1]
		}
		return open
	}
	for len(open) > 0 && !last().flow && last().column >= columnOf(t) {
		open = open[:len(open)-1]
	}
	return open
}

func lineOf(t *token.Token) int   { return t.Position.Line + 1 } // of the file, whose first line is the fence
func columnOf(t *token.Token) int { return t.Position.Column }

// explain is what the parser says without the picture that it draws.
func explain(err error) error {
	what, where := "cannot be read", ""
	var syntax interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if errors.As(err, &syntax) {
		what = syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			where = fmt.Sprintf("line %d: ", lineOf(t))
		}
	}
	return corebot.WithHint(fmt.Errorf("%w: %s%s", corebot.ErrInvalid, where, clip(what)),
		"it is YAML: put a text that has a colon, a # or quotes in quotes")
}

// at says on which line of the file a node is.
func at(n ast.Node, err error) error {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return fmt.Errorf("line %d: %w", lineOf(t), err)
	}
	return err
}

// mapping gives the entries of a mapping. Keys are texts; that each is there once the parser has seen to.
func mapping(n ast.Node) ([]entry, error) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, fmt.Errorf("%w: it is not a list of keys and values", corebot.ErrInvalid)
	}
	entries := make([]entry, 0, len(values))
	for _, v := range values {
		key, err := text("a key", v.Key)
		if err != nil {
			return nil, at(v, err)
		}
		entries = append(entries, entry{key, v.Value, v})
	}
	return entries, nil
}

// text reads a text, plain, quoted or a block. Numbers and the like are texts only in quotes.
func text(what string, n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	}
	return "", corebot.WithHint(fmt.Errorf("%w: %s is not a text", corebot.ErrInvalid, what), "put it in quotes")
}

func boolean(what string, n ast.Node) (bool, error) {
	if b, ok := n.(*ast.BoolNode); ok {
		return b.Value, nil
	}
	return false, corebot.WithHint(fmt.Errorf("%w: %s is neither true nor false", corebot.ErrInvalid, what),
		"write true or false, without quotes")
}
