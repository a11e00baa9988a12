package config

import (
	"math"
	"reflect"
	"strconv"
	"time"
)

// wanted says what a value should have been. It never quotes what it was: that may be secret.
type wanted struct{ what, like string }

// parse turns what a file or the environment has into the type of a setting. It guesses nothing: a duration without a unit
// or a fraction of an attempt is refused, and so is text without quotes that YAML took for a number, since its spelling is
// lost by then.
func parse(raw any, t reflect.Type) (any, *wanted) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return parseDuration(raw)
	case t.Kind() == reflect.Bool:
		return parseBool(raw)
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return parseInt(raw)
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
