package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/corebot/corebot"
)

// wanted says what a value should have been. It never quotes what it was: that may be secret.
type wanted struct{ what, like string }

// parse turns a value of the file or the environment into the type of a setting. It guesses nothing: it refuses a
// duration without a unit and a fraction of an attempt. It refuses text without quotes that YAML took for a number,
// since the spelling is lost by then.
func parse(raw any, t reflect.Type) (any, *wanted) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return parseDuration(raw)
	case t.Kind() == reflect.Bool:
		return parseBool(raw)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return parseInt(raw)
	case t == reflect.TypeFor[Number]():
		return parseNumber(raw)
	case t == reflect.TypeFor[[]string]():
		return parseTexts(raw)
	case t == reflect.TypeFor[List[string]]():
		return parseTextList(raw)
	case t == reflect.TypeFor[List[int]]():
		return parseIntList(raw)
	case t == reflect.TypeFor[map[string]Secret]():
		return parseSecrets(raw)
	}
	text, ok := raw.(string)
	switch {
	case ok && t == reflect.TypeFor[Secret]():
		return NewSecret(text), nil
	case ok:
		return text, nil
	}
	return nil, &wanted{"text", "text, in quotes"}
}

func parseTexts(raw any) (any, *wanted) {
	list, ok := raw.([]any)
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, is := item.(string)
		ok = ok && is
		texts = append(texts, text)
	}
	if !ok {
		return nil, &wanted{"a list of texts", `a list, such as ["one", "two"]`}
	}
	return texts, nil
}

func parseSecrets(raw any) (any, *wanted) {
	section, ok := asSection(raw)
	secrets := make(map[string]Secret, len(section))
	for name, item := range section {
		text, is := item.(string)
		ok = ok && is
		secrets[name] = NewSecret(text)
	}
	if !ok {
		return nil, &wanted{"names with their values", "names with values in quotes, such as X-Title: \"bot\""}
	}
	return secrets, nil
}

func parseDuration(raw any) (any, *wanted) {
	if text, ok := raw.(string); ok {
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
	}
	return nil, &wanted{"a duration", "a number with its unit, such as 6s or 15m"}
}

func parseBool(raw any) (any, *wanted) {
	switch v := raw.(type) {
	case bool:
		return v, nil
	case string:
		switch strings.ToLower(v) { // YAML 1.1 has more words for it than the decoder knows
		case "yes", "y", "on":
			return true, nil
		case "no", "n", "off":
			return false, nil
		}
		if b, err := strconv.ParseBool(v); err == nil {
			return b, nil
		}
	}
	return nil, &wanted{"yes or no", "true or false"}
}

func parseInt(raw any) (any, *wanted) {
	switch v := raw.(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64: // every number of JSON is one; beyond 2^53 it is no longer the one that was written
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return int64(v), nil
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return nil, &wanted{"a whole number", "digits, such as 5; sizes are in bytes"}
}

// Number is a number with a fraction, as text; empty is none.
type Number string

// Value gives the number, and whether there is one.
func (n Number) Value() (float64, bool) {
	v, err := strconv.ParseFloat(string(n), 64)
	return v, err == nil
}

// check refuses what no temperature can be; nothing else is such a number.
func (n Number) check(key string) error {
	v, set := n.Value()
	if n == "" || set && v >= 0 && v <= 2 {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%s is %s", key, n), "it must be a number from 0 to 2")
}

func parseNumber(raw any) (any, *wanted) {
	text := strings.TrimSpace(fmt.Sprint(raw))
	if _, isNumber := raw.(bool); !isNumber {
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return Number(text), nil
		}
	}
	return nil, &wanted{"a number", "digits with a point, such as 0.7"}
}

// List is a setting with several values, in order. The zero value is the empty list. Two lists can be compared with ==.
//
// In the environment, and wherever else it is one text, a list is its values with commas between them, or a list in
// JSON.
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
	empty := 0
	for i, item := range list {
		text, is := item.(string)
		ok = ok && is
		if is && text == "" && empty == 0 {
			empty = i + 1
		}
		texts = append(texts, text)
	}
	if !ok {
		return nil, &wanted{"a list of texts", `a list, such as ["one", "two"]; in a variable as one,two`}
	}
	if empty > 0 {
		return nil, &wanted{fmt.Sprintf("a list of texts: text %d is empty", empty), "the list without it"}
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
