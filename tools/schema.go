package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/strictjson"
)

const (
	maxSchema     = 64 << 10 // bytes
	maxSubschemas = 2_000    // with every reference written out
)

// readSchema makes a schema of somebody else fit to be offered and checked with. checker is nil if the schema contains
// itself.
func readSchema(raw json.RawMessage) (tidy json.RawMessage, checker *jsonschema.Resolved, err error) {
	if len(raw) > maxSchema {
		return nil, nil, fmt.Errorf("it has %d bytes, the limit is %d", len(raw), maxSchema)
	}
	if tidy, err = tidyJSON(raw); err != nil {
		return nil, nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(tidy, &root); err != nil || root == nil {
		return nil, nil, errors.New("it is no object")
	}
	if root["type"] != "object" {
		return nil, nil, errors.New(`its type is not "object"`)
	}
	if _, ok := root["properties"]; !ok { // which some providers insist on
		tidy = append(bytes.TrimSuffix(tidy, []byte("}")), `,"properties":{}}`...)
	}
	w := &expansion{root: root}
	if err := w.apply(root, []step{{to: "#"}}, 0); err != nil {
		return nil, nil, err
	}
	if err := w.definitions(root); err != nil {
		return nil, nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(tidy, &s); err != nil {
		return nil, nil, err
	}
	if checker, err = s.Resolve(nil); err != nil || w.recursive {
		checker = nil
	}
	return tidy, checker, err
}

// tidyJSON writes a schema again: compact, in its order, without invisible characters, and with its prose as a prompt
// may show it. Doubled names, depth, bytes that are not UTF-8, and names and values that a chat template would obey are
// refused.
func tidyJSON(raw json.RawMessage) (json.RawMessage, error) {
	if err := wellFormed(raw); err != nil {
		return nil, fmt.Errorf("%s", strings.Replace(err.Error(), "the arguments", "it", 1))
	}
	return strictjson.Rewrite(raw, strictjson.Rules{HalfCharacters: true}, strictjson.Edit{
		Name: literal,
		Text: func(member, text string) (string, error) {
			if isProse(member) {
				return outside.Text(text), nil
			}
			return literal(text)
		},
	})
}

// isProse: the member is there for its reader only, and can be changed.
func isProse(member string) bool {
	return member == "description" || member == "title" || member == "$comment"
}

// literal is a text that a model must write as it stands.
func literal(text string) (string, error) {
	shown := outside.Text(text)
	if shown != redact.Visible(text) {
		return "", fmt.Errorf("%.60q has a control token of chat templates", text)
	}
	return shown, nil
}

// expansion follows a schema as a check of arguments would, with every reference written out, and counts. It refuses a
// schema whose check would take time that grows without bound.
type expansion struct {
	root      map[string]any
	visited   int
	recursive bool // the schema contains itself
}

// step is a reference that is being followed, and how far into the arguments it stands.
type step struct {
	to    string
	depth int
}

// Keywords with schemas below them: those that look at the same value as the schema around them, and those that look at
// a part of it.
func sameValue() []string {
	return []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
}

func partOfValue() []string {
	return []string{
		"properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties",
		"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems", "contentSchema",
	}
}

// apply counts a schema and what is below it. path are the references that led to it.
func (e *expansion) apply(node any, path []step, depth int) error {
	schema, ok := node.(map[string]any)
	if !ok {
		return nil // true and false are schemas as well
	}
	if e.visited++; e.visited > maxSubschemas {
		return fmt.Errorf("with its references written out it has more than %d parts", maxSubschemas)
	}
	for _, name := range sameValue() {
		if err := e.each(name, schema[name], path, depth); err != nil {
			return err
		}
	}
	for _, name := range partOfValue() {
		if err := e.each(name, schema[name], path, depth+1); err != nil {
			return err
		}
	}
	return e.follow(schema, path, depth)
}

// each applies the schemas that are the value of a keyword: one, a list, or several by name.
func (e *expansion) each(keyword string, value any, path []step, depth int) error {
	switch v := value.(type) {
	case []any:
		for _, s := range v {
			if err := e.apply(s, path, depth); err != nil {
				return err
			}
		}
	case map[string]any:
		if !byName(keyword) {
			return e.apply(v, path, depth)
		}
		for _, s := range v {
			if err := e.apply(s, path, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// byName says whether the value of a keyword has schemas by the names of properties.
func byName(keyword string) bool {
	switch keyword {
	case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
		return true
	}
	return false
}

// follow applies what the schema refers to.
func (e *expansion) follow(schema map[string]any, path []step, depth int) error {
	for _, name := range []string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"} {
		if _, ok := schema[name]; ok {
			return fmt.Errorf("it has a %s, which is not supported", name)
		}
	}
	if _, ok := schema["$id"]; ok && e.visited > 1 { // of the outermost schema it is a name and no more
		return errors.New("it has an $id inside, which is not supported")
	}
	to, ok := schema["$ref"].(string)
	if !ok {
		return nil
	}
	target, err := e.lookUp(to)
	if err != nil {
		return err
	}
	for _, s := range path {
		switch {
		case s.to == to && s.depth == depth:
			return fmt.Errorf("its reference %q leads back to itself", to)
		case s.to == to:
			e.recursive = true
			return nil
		}
	}
	return e.apply(target, append(path[:len(path):len(path)], step{to, depth}), depth)
}

// lookUp finds what a reference inside the document means.
func (e *expansion) lookUp(ref string) (any, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && !strings.HasPrefix(pointer, "/") {
		return nil, fmt.Errorf("its reference %.200q leads out of the schema", ref)
	}
	var at any = e.root
	if pointer == "" {
		return at, nil
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		if at, ok = member(at, part); !ok {
			return nil, fmt.Errorf("its reference %.200q leads nowhere", ref)
		}
	}
	return at, nil
}

// member is the part of a value that one part of a JSON pointer, in a URI fragment, means.
func member(of any, part string) (any, bool) {
	part, err := url.PathUnescape(part)
	if err != nil {
		return nil, false
	}
	switch v := of.(type) {
	case map[string]any:
		m, ok := v[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		return m, ok
	case []any:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// definitions looks at what only references reach: the library follows them all, used or not.
func (e *expansion) definitions(root map[string]any) error {
	for _, name := range []string{"$defs", "definitions"} {
		if err := e.each(name, root[name], []step{{to: "#", depth: -1}}, 0); err != nil {
			return err
		}
	}
	return nil
}

const (
	maxArgs  = 2 << 20 // bytes of one call's arguments
	maxDepth = 32      // arrays and objects inside one another
)

// decoder reads arguments as A says, and nothing else.
//
// encoding/json alone takes fields in any case, the last of two that have one name, and what follows the document. All
// three would let policy and tool read different things than the audit shows, so they are refused.
type decoder[A any] struct{ typed }

func newDecoder[A any]() (decoder[A], error) {
	t, err := typedOf(reflect.TypeFor[A]())
	return decoder[A]{t}, err
}

func (d decoder[A]) decode(raw json.RawMessage) (args A, err error) {
	checker, err := d.checker()
	if err == nil {
		err = decodeInto(&args, raw, checker)
	}
	return args, err
}

// typed is the schema of a type: its bytes, and what checks arguments with it. Most processes call few of their tools,
// so the checker is made for the first call.
type typed struct {
	schema  json.RawMessage
	checker func() (*jsonschema.Resolved, error)
}

// typedSchemas has the [typed] of each type of arguments, which are as many as there are tools in the program.
var typedSchemas sync.Map

func typedOf(args reflect.Type) (typed, error) {
	if known, ok := typedSchemas.Load(args); ok {
		return known.(typed), nil
	}
	s, err := jsonschema.ForType(args, nil)
	if err != nil {
		return typed{}, fmt.Errorf("make a schema: %w", err)
	}
	if s.Type != "object" {
		return typed{}, fmt.Errorf("%w: arguments of type %q: want a struct", corebot.ErrInvalid, s.Type)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return typed{}, fmt.Errorf("encode the schema: %w", err)
	}
	t := typed{schema: raw, checker: sync.OnceValues(func() (*jsonschema.Resolved, error) {
		r, err := s.Resolve(nil)
		if err != nil {
			return nil, fmt.Errorf("resolve the schema: %w", err)
		}
		return r, nil
	})}
	typedSchemas.Store(args, t)
	return t, nil
}

// decodeInto takes no text at all for an empty object: that is how some models call a tool without arguments.
func decodeInto(args any, raw json.RawMessage, checker *jsonschema.Resolved) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := wellFormed(raw); err != nil {
		return err
	}
	var loose any
	if err := json.Unmarshal(raw, &loose); err != nil {
		return err
	}
	if err := checker.Validate(loose); err != nil {
		return err
	}
	return json.Unmarshal(raw, args)
}

// wellFormed checks what a schema cannot see: size, encoding, depth, doubled fields, and that there is one document
// only.
func wellFormed(raw json.RawMessage) error {
	if len(raw) > maxArgs {
		return fmt.Errorf("the arguments have %d bytes, the limit is %d", len(raw), maxArgs)
	}
	err := strictjson.Check(raw, maxDepth, strictjson.Rules{HalfCharacters: true})
	if bad := (*strictjson.Error)(nil); errors.As(err, &bad) {
		switch bad.What {
		case strictjson.Encoding:
			return errors.New("the arguments are not valid UTF-8")
		case strictjson.Trailing:
			return errors.New("the arguments are not good JSON: something follows the object")
		case strictjson.Cut:
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		return fmt.Errorf("the arguments are not good JSON: %w", err)
	}
	return nil
}

const (
	maxFields    = 24 // of a schema, that an error lists
	maxFieldName = 64 // bytes
)

// fieldsOf lists the fields of a schema's object for a model whose arguments were refused, the required ones first:
// `path (string, required), limit (integer)`. The schema of an MCP server is text from outside. So a name that is no
// plain word is left out, and so is what a field is for.
func fieldsOf(schema json.RawMessage) string {
	var object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := json.Unmarshal(schema, &object); err != nil {
		return ""
	}
	var required, others []string
	for name, field := range object.Properties {
		switch kind := typeOf(field); {
		case !plainWord(name):
		case slices.Contains(object.Required, name):
			required = append(required, name+" ("+kind+", required)")
		default:
			others = append(others, name+" ("+kind+")")
		}
	}
	slices.Sort(required)
	slices.Sort(others)
	all := append(required, others...)
	if len(all) > maxFields {
		all = append(all[:maxFields], "and more")
	}
	return strings.Join(all, ", ")
}

// typeOf is the JSON type of a field, without null.
func typeOf(field json.RawMessage) string {
	var one struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(field, &one) == nil && slices.Contains(jsonTypes, one.Type) {
		return one.Type
	}
	var several struct {
		Type []string `json:"type"`
	}
	if json.Unmarshal(field, &several) == nil {
		for _, kind := range several.Type {
			if slices.Contains(jsonTypes, kind) {
				return kind
			}
		}
	}
	return "any"
}

var jsonTypes = []string{"string", "integer", "number", "boolean", "array", "object"}

func plainWord(name string) bool {
	return name != "" && len(name) <= maxFieldName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.$", r)
	})
}
