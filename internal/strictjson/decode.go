package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Decode checks data as [Check] does and reads it into a value, with encoding/json. Each name must be that of a field,
// spelt as the field's tag spells it: encoding/json alone would take any case, and other readers would not.
func Decode(data []byte, levels int, rules Rules, into any) error {
	if err := Check(data, levels, rules); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return Plain(err)
	}
	return (&speller{NewReader(data, rules), levels}).value(reflect.TypeOf(into))
}

// speller compares the names of a document with those of the types that it was decoded into.
type speller struct {
	*Reader
	levels int
}

func (s *speller) value(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	own := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) // it reads its names itself
	switch kind := s.Kind(); {
	case kind == '{' && t.Kind() == reflect.Struct && !own:
		names := map[string]reflect.Type{}
		namesOf(t, names)
		return s.Members(func(name string) error {
			field, known := names[name]
			if !known {
				return &Error{
					What: Misspelt, At: s.Ahead(), Name: name,
					err: fmt.Errorf("there is no field %s: a name is spelt with its own capitals", short(name)),
				}
			}
			return s.value(field)
		})
	case kind == '{' && t.Kind() == reflect.Map && !own:
		return s.Members(func(string) error { return s.value(t.Elem()) })
	case kind == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !own:
		return s.list(t.Elem())
	}
	_, err := s.Value(s.levels)
	return err
}

func (s *speller) list(t reflect.Type) error {
	if _, err := s.Next(); err != nil {
		return err
	}
	for s.More() {
		if err := s.value(t); err != nil {
			return err
		}
	}
	_, err := s.Next()
	return err
}

// namesOf adds the names of a struct's fields, and those of the structs that are embedded in it.
func namesOf(t reflect.Type, names map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			namesOf(inner, names)
		case f.IsExported() && name == "":
			names[f.Name] = f.Type
		case f.IsExported() && name != "-":
			names[name] = f.Type
		}
	}
}
