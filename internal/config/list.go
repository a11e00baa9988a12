package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unique"
)

// List is a setting with several values, in order. The zero value is the empty list. Two lists can be compared with ==.
//
// In the environment, and wherever else it is one text, a list is its values with commas between them, or a list in JSON.
type List[T string | int] struct {
	text unique.Handle[string] // the values as JSON
}

// NewList makes a list.
func NewList[T string | int](values ...T) List[T] {
	if len(values) == 0 {
		return List[T]{}
	}
	text, err := json.Marshal(values)
	if err != nil {
		panic(err) // texts and numbers always marshal
	}
	return List[T]{unique.Make(string(text))}
}

// Values gives what is in the list; the caller may keep it.
func (l List[T]) Values() []T {
	values := []T{}
	if l == (List[T]{}) {
		return values
	}
	if err := json.Unmarshal([]byte(l.text.Value()), &values); err != nil {
		panic(err) // what NewList has spelt can be read
	}
	return values
}

// String gives the list as JSON.
func (l List[T]) String() string {
	if l == (List[T]{}) {
		return "[]"
	}
	return l.text.Value()
}

// MarshalJSON gives the list itself.
func (l List[T]) MarshalJSON() ([]byte, error) { return []byte(l.String()), nil }

// items are the values of a list as a file, or one text, has them.
func items(raw any) (list []any, ok bool) {
	text, isText := raw.(string)
	if !isText {
		list, ok = raw.([]any)
		return list, ok
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") {
		return list, json.Unmarshal([]byte(text), &list) == nil
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list, true
}

// parseTextList refuses empty texts: they mean nothing in any list.
func parseTextList(raw any) (any, *wanted) {
	list, ok := items(raw)
	var texts []string
	for _, item := range list {
		text, is := item.(string)
		ok = ok && is && text != ""
		texts = append(texts, text)
	}
	if !ok {
		return nil, &wanted{"a list of texts", `a list, such as ["one", "two"]; in a variable as one,two`}
	}
	return NewList(texts...), nil
}

func parseIntList(raw any) (any, *wanted) {
	list, ok := items(raw)
	var numbers []int
	for _, item := range list {
		n, wrong := parseInt(item)
		if wrong != nil {
			ok = false
			break
		}
		number, err := strconv.Atoi(fmt.Sprint(n))
		ok = ok && err == nil
		numbers = append(numbers, number)
	}
	if !ok {
		return nil, &wanted{"a list of whole numbers", "a list, such as [80, 443]; in a variable as 80,443"}
	}
	return NewList(numbers...), nil
}
