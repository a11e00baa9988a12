package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Plain is an error of encoding/json in words for people: which field it is about, what belongs there, and what was
// there. The library's own words name types of Go. Any other error stays as it is.
func Plain(err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return &mistyped{wrong}
	}
	if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("it is not good JSON at byte %d", wrong.Offset)
	}
	if wrong := (*time.ParseError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("a moment is written as 2026-12-24T18:00:00Z, and not as %s", short(wrong.Value))
	}
	if err != nil {
		if strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: ") {
			return errors.New("a moment is a string such as 2026-12-24T18:00:00Z")
		}
		// encoding/json has no type for a name that the value does not have.
		if name, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
			return fmt.Errorf("there is no field %s", name)
		}
		if why, is := strings.CutPrefix(err.Error(), "json: "); is {
			return fmt.Errorf("it cannot be read: %s", why)
		}
	}
	return err
}

// mistyped is a value of another type than its field.
type mistyped struct{ *json.UnmarshalTypeError }

func (m *mistyped) Error() string {
	what := m.Field
	if what == "" {
		what = "it"
	}
	return fmt.Sprintf("%s must be %s, and is %s", what, wantedOf(m.Type), gotOf(m.Value))
}

func (m *mistyped) Unwrap() error { return m.UnmarshalTypeError }

// wantedOf names the values of a type.
func wantedOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of at least 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return "a moment such as 2026-12-24T18:00:00Z"
		}
	}
	return "an object"
}

// gotOf names what stood there, in the words of encoding/json. Of a number it is told which, if the type is right.
func gotOf(value string) string {
	if number, is := strings.CutPrefix(value, "number "); is {
		return short(number)[1 : len(short(number))-1]
	}
	switch value {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + value // string, number
}
