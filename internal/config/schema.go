package config

import (
	"reflect"
	"strings"
)

// durationPattern is Go's notation of a duration, without the spellings that nobody needs: a sign, a fraction without
// digits, a bare 0.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// schemaObject is a part of the schema, with its keywords in the order in which people want to read them.
type schemaObject struct {
	Schema      string                  `json:"$schema,omitempty"`
	Title       string                  `json:"title,omitempty"`
	Description string                  `json:"description,omitempty"`
	Type        any                     `json:"type"`
	Enum        []string                `json:"enum,omitempty"`
	Pattern     string                  `json:"pattern,omitempty"`
	Minimum     *int64                  `json:"minimum,omitempty"`
	Default     any                     `json:"default,omitempty"`
	WriteOnly   bool                    `json:"writeOnly,omitempty"`
	Items       *schemaObject           `json:"items,omitempty"`
	Properties  map[string]schemaObject `json:"properties,omitempty"`
	Others      any                     `json:"additionalProperties,omitempty"` // false: no other settings
}

// Schema describes the settings file as a JSON Schema, draft 2020-12, for editors and for checks elsewhere. The loader
// reads every file that the schema accepts. The loader also takes numbers in quotes, keys in capital letters and
// settings without a value. Only the loader checks rules over several settings at once.
func Schema(networks ...Network) any {
	top := closedObject("Settings of Corebot", "object")
	top.Schema, top.Title = "https://json-schema.org/draft/2020-12/schema", "corebot.yaml"
	for _, s := range sections() {
		if s.isList() {
			top.Properties[s.name] = s.leaves[0].schema()
			continue
		}
		o := closedObject(s.doc, []string{"object", "null"}) // a section whose settings are all commented out is null
		for _, l := range s.leaves {
			o.Properties[l.key[len(s.name)+1:]] = l.schema()
		}
		top.holder(s.name).Properties[s.name[strings.LastIndex(s.name, ".")+1:]] = o
	}
	for _, n := range networks {
		top.Properties["channels"].Properties[n.Kind] = n.schema()
	}
	return top
}

// holder is what has the section of that name among its properties.
func (o schemaObject) holder(section string) schemaObject {
	for {
		outer, rest, part := strings.Cut(section, ".")
		if !part {
			return o
		}
		o, section = o.Properties[outer], rest
	}
}

func closedObject(description string, kind any) schemaObject {
	return schemaObject{Description: description, Type: kind, Properties: map[string]schemaObject{}, Others: false}
}

// schema describes one setting.
func (l leaf) schema() schemaObject {
	o := schemaObject{Description: l.description(), Type: "string", Default: written(l.standard), Enum: l.oneOf}
	switch {
	case l.entries() != nil:
		o.Type, o.Default = "array", []any{}
		entry := closedObject("one of them", "object")
		for _, setting := range l.entries() {
			of, name := entry, setting.key
			if section, rest, part := strings.Cut(name, "."); part {
				if _, known := entry.Properties[section]; !known {
					entry.Properties[section] = closedObject("", []string{"object", "null"})
				}
				of, name = entry.Properties[section], rest
			}
			of.Properties[name] = setting.schema()
		}
		o.Items = &entry
	case l.isTexts():
		o.Type, o.Enum, o.Items = "array", nil, &schemaObject{Type: "string", Enum: l.oneOf}
	case l.isNumbers():
		o.Type, o.Items = "array", &schemaObject{Type: "integer"}
	case l.kind.Kind() == reflect.Slice:
		o.Type, o.Default, o.Items = "array", nil, &schemaObject{Type: "string"}
	case l.kind.Kind() == reflect.Map:
		o.Type, o.Default, o.Others = "object", nil, schemaObject{Type: "string", WriteOnly: true}
	case l.isSecret():
		o.WriteOnly, o.Default = true, nil
	case l.kind == reflect.TypeFor[Number]():
		o.Type = []string{"number", "string"}
		if l.standard == Number("") {
			o.Default = nil
		}
	case l.isDuration():
		o.Pattern = durationPattern
	case l.kind.Kind() == reflect.Bool:
		o.Type = "boolean"
	case l.oneOf != nil && l.standard == "": // none of them, unless it is set
		o.Default = nil
	case l.kind.Kind() != reflect.String:
		o.Type, o.Minimum = "integer", l.least
	}
	return o
}

// description is the line of documentation with what else there is to know.
func (l leaf) description() string {
	text := l.doc
	if l.isSecret() {
		text += "; may be file:PATH or env:NAME"
	}
	if l.reload {
		return text + "; applied by a reload"
	}
	return text
}
