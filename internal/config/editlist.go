package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// item is an item of a list in a YAML file: its lines, with the comments that stand above it.
type item struct {
	lines []string
	value any // as JSON has it
	taken bool
}

// setItems gives the block of a list, from the line of its key on, other items. An item that stays keeps its lines,
// and so its comments. An item that takes the place of another keeps the comments of the other. ok is false for a list
// that has not an item a line or more, such as a flow list.
func setItems(block []string, was any, value string) (fresh []string, ok bool) {
	var now []any
	if json.Unmarshal([]byte(value), &now) != nil || len(now) == 0 {
		return nil, false
	}
	items, dash := itemsOf(block, was)
	if items == nil {
		return nil, false
	}
	fresh = []string{block[0]}
	for at, v := range now {
		kept := slices.IndexFunc(items, func(i item) bool { return !i.taken && i.in([]any{v}) })
		if kept >= 0 {
			items[kept].taken = true
			fresh = append(fresh, items[kept].lines...)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		line := dash + " " + string(text)
		if at < len(items) && !items[at].in(now) {
			above, first := items[at].comments()
			fresh = append(fresh, above...)
			line += commentOf(first)
			items[at].taken = true
		}
		fresh = append(fresh, line)
	}
	return fresh, true
}

func (i item) in(values []any) bool {
	return slices.ContainsFunc(values, func(v any) bool { return reflect.DeepEqual(i.value, v) })
}

// comments are the lines above an item, and its first line.
func (i item) comments() (above []string, first string) {
	at := slices.IndexFunc(i.lines, func(line string) bool { return !isSilent(line) })
	return i.lines[:at], i.lines[at]
}

// itemsOf splits the block of a list. There are none if its items are not those that the list is known to have.
func itemsOf(block []string, was any) (items []item, dash string) {
	var values []any
	text, err := json.Marshal(was) // a number of YAML has the type of a number of JSON then
	if err != nil || json.Unmarshal(text, &values) != nil {
		return nil, ""
	}
	from := 1
	for at := 1; at < len(block); at++ {
		line := block[at]
		if dash == "" && !isSilent(line) {
			dash = indentOf(line) + "-"
		}
		switch {
		case isSilent(line):
		case line == dash || strings.HasPrefix(line, dash+" "):
			if len(items) == len(values) {
				return nil, ""
			}
			items = append(items, item{value: values[len(items)]})
		case len(items) == 0:
			return nil, ""
		}
		if isSilent(line) {
			continue
		}
		last := &items[len(items)-1]
		last.lines = append(last.lines, block[from:at+1]...)
		from = at + 1
	}
	if len(items) != len(values) {
		return nil, ""
	}
	return items, dash
}
