package httpapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/corebot/corebot"
)

// documentPath is where the API describes itself.
const documentPath = "/api/openapi.json"

// object is any JSON object: the schema of a type that writes its own JSON.
var object = &jsonschema.Schema{Type: "object"}

// ownJSON are the types whose JSON their fields do not show.
var ownJSON = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[corebot.Said]():         object,
	reflect.TypeFor[corebot.HistoryEntry](): object,
	reflect.TypeFor[corebot.Message]():      object,
	reflect.TypeFor[corebot.Merged]():       object,
	reflect.TypeFor[corebot.Answer]():       object,
	reflect.TypeFor[corebot.ToolCall]():     object,
	reflect.TypeFor[corebot.ToolResult]():   object,
	reflect.TypeFor[corebot.Life]():         object, // it has replies, which are lives
	reflect.TypeFor[corebot.Money]():        {},
	reflect.TypeFor[json.RawMessage]():      {},
	reflect.TypeFor[time.Time]():            {Type: "string", Format: "date-time"},
}

// schemaOf describes the JSON of a type. Answers can have more members than a caller of today knows: later versions
// add some.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: ownJSON})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", t, err)
	}
	return s, nil
}

// open lets every object of an answer have further members.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" && len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
}

type (
	openAPI struct {
		OpenAPI    string                          `json:"openapi"`
		Info       info                            `json:"info"`
		Paths      map[string]map[string]operation `json:"paths"`
		Components components                      `json:"components"`
		Security   []map[string][]string           `json:"security"`
	}
	info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description"`
	}
	components struct {
		Schemas         map[string]*jsonschema.Schema `json:"schemas"`
		SecuritySchemes map[string]map[string]string  `json:"securitySchemes"`
	}
	operation struct {
		OperationID string              `json:"operationId"`
		Summary     string              `json:"summary"`
		Description string              `json:"description"`
		Parameters  []parameter         `json:"parameters,omitempty"`
		RequestBody *content            `json:"requestBody,omitempty"`
		Responses   map[string]*content `json:"responses"`
	}
	parameter struct {
		Name        string             `json:"name"`
		In          string             `json:"in"`
		Required    bool               `json:"required"`
		Description string             `json:"description,omitempty"`
		Schema      *jsonschema.Schema `json:"schema"`
	}
	content struct {
		Description string               `json:"description,omitempty"`
		Required    bool                 `json:"required,omitempty"`
		Content     map[string]mediaType `json:"content"`
	}
	mediaType struct {
		Schema *jsonschema.Schema `json:"schema"`
	}
)

// document describes every route as OpenAPI 3.1, whose schemas are JSON Schema.
func document(version string) ([]byte, error) {
	failure, err := schemaOf(reflect.TypeFor[problem]())
	if err != nil {
		return nil, err
	}
	open(failure)
	doc := openAPI{
		OpenAPI: "3.1.0",
		Info: info{
			Title: "Corebot", Version: version,
			Description: "What an operator can list, look at and change. Every path is an operation that a command " +
				"carries out, too.",
		},
		Paths: map[string]map[string]operation{},
		Components: components{
			Schemas:         map[string]*jsonschema.Schema{"problem": failure},
			SecuritySchemes: map[string]map[string]string{"token": {"type": "http", "scheme": "bearer"}},
		},
		Security: []map[string][]string{{"token": {}}},
	}
	for _, r := range routes() {
		o, err := r.describe()
		if err != nil {
			return nil, err
		}
		if doc.Paths[r.path] == nil {
			doc.Paths[r.path] = map[string]operation{}
		}
		doc.Paths[r.path][strings.ToLower(r.method)] = o
	}
	return encode(doc)
}

// describe is the operation of a route.
func (r route) describe() (operation, error) {
	result, err := schemaOf(r.out)
	if err != nil && r.out != reflect.TypeFor[download]() {
		return operation{}, err
	}
	open(result)
	o := operation{
		OperationID: r.id(), Summary: r.summary, Description: "Needs a token with the scope " + r.scopes() + ".",
		Responses: map[string]*content{
			"200": {Description: "OK", Content: map[string]mediaType{"application/json": {result}}},
			"default": {Description: "A problem", Content: map[string]mediaType{
				"application/problem+json": {&jsonschema.Schema{Ref: "#/components/schemas/problem"}},
			}},
		},
	}
	if r.out == reflect.TypeFor[download]() {
		bytes := &jsonschema.Schema{Type: "string", Format: "binary"}
		o.Responses["200"].Content = map[string]mediaType{"application/octet-stream": {bytes}}
	}
	if _, can := reflect.Zero(r.out).Interface().(interface{ status() int }); can {
		o.Responses["202"] = o.Responses["200"]
	}
	if r.keyed() {
		o.Parameters = append(o.Parameters, parameter{
			Name: keyHeader, In: "header", Schema: &jsonschema.Schema{Type: "string"},
			Description: "of your choice: sent again with it within a day, the request changes nothing, and has the " +
				"same answer",
		})
	}
	for _, f := range fieldsOf(r.in) {
		s, err := schemaOf(f.Type)
		if err != nil {
			return o, err
		}
		if f.from == "body" {
			o.RequestBody = &content{Required: true, Content: map[string]mediaType{"application/json": {s}}}
			continue
		}
		f.narrow(s)
		o.Parameters = append(o.Parameters, parameter{
			Name: f.name, In: f.from, Required: f.from == "path", Description: f.Tag.Get("doc"), Schema: s,
		})
	}
	return o, nil
}

// narrow says in the schema of a parameter which values it takes.
func (f field) narrow(s *jsonschema.Schema) {
	if least, ok := f.least(); ok {
		s.Minimum = new(float64(least))
	}
	for _, value := range sets()[f.Tag.Get(setTag)] {
		s.Enum = append(s.Enum, value)
	}
}

// scopes are those that open the route, in words.
func (r route) scopes() string {
	if r.also == "" {
		return string(r.scope)
	}
	return string(r.scope) + ", or " + string(r.also) + " for chats of its own"
}

// id names an operation by its method and path, such as get_deadletters_id.
func (r route) id() string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.path, "/api"), func(c rune) bool {
		return strings.ContainsRune("/{}", c)
	})
	return strings.ToLower(r.method) + "_" + strings.Join(words, "_")
}
