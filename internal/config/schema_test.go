package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/corebot/corebot/internal/long"
)

func fieldOf(l leaf) reflect.StructField { return reflect.TypeFor[Config]().FieldByIndex(l.index) }

func schemaText(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checker is the schema, as a third-party library reads it. It refuses defaults that are not valid.
func checker(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(schemaText(t), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// asJSON reads YAML into what JSON would have given.
func asJSON(t *testing.T, content string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(content), &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestTheSchemaIsValidByItsMetaSchema(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/google/jsonschema-go/jsonschema").Output()
	if err != nil {
		t.Fatalf("find the meta-schema, which comes with the library: %v", err)
	}
	meta, err := metaSchema(filepath.Join(strings.TrimSpace(string(dir)), "meta-schemas", "draft2020-12"))
	if err != nil {
		t.Fatal(err)
	}
	var ours any
	if err := json.Unmarshal(schemaText(t), &ours); err != nil {
		t.Fatal(err)
	}
	if err := meta.Validate(ours); err != nil {
		t.Error(err)
	}
	if err := meta.Validate(map[string]any{"properties": map[string]any{"x": map[string]any{
		"type": "text",
	}}}); err == nil {
		t.Error("the meta-schema takes a type that does not exist: it checks nothing")
	}
}

// metaSchema reads the meta-schema of draft 2020-12 and the vocabularies that it refers to.
func metaSchema(dir string) (*jsonschema.Resolved, error) {
	read := func(name string) (*jsonschema.Schema, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		s := new(jsonschema.Schema)
		return s, json.Unmarshal(text, s)
	}
	top, err := read("schema.json")
	if err != nil {
		return nil, err
	}
	return top.Resolve(&jsonschema.ResolveOptions{Loader: func(uri *url.URL) (*jsonschema.Schema, error) {
		return read(filepath.Join("meta", filepath.Base(uri.Path)+".json"))
	}})
}

func TestTheSchemaTakesEveryDefaultAndEverySetting(t *testing.T) {
	s := checker(t)
	defaults := map[string]any{}
	for _, l := range leaves() {
		at, names := defaults, strings.Split(l.key, ".")
		for _, section := range names[:len(names)-1] {
			if at[section] == nil {
				at[section] = map[string]any{}
			}
			at = at[section].(map[string]any)
		}
		at[names[len(names)-1]] = written(l.standard)
	}
	text, err := json.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	everything, _ := everySetting(t)
	for name, content := range map[string]string{
		"defaults": string(text), "everything": everything, "nothing": "{}",
		"an empty section": "llm:\n",
	} {
		if err := s.Validate(asJSON(t, content)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		clean(t)
		load(t, homeWith(t, "corebot.yaml", content))
	}
}

func TestWhatTheSchemaRefusesTheLoaderRefusesToo(t *testing.T) {
	s := checker(t)
	refused := []string{"zzz: {}", "zzz: 1", "bus: 3", "- llm"}
	for _, section := range sections() {
		refused = append(refused, inFile(section.name, "{zzz: 1}"), inFile(section.name, "text"))
		for _, l := range section.leaves {
			refused = append(refused, inFile(l.key, "[[1]]"), inFile(l.key+"x", "1"))
			if !l.isNumbers() {
				refused = append(refused, inFile(l.key, "[1]"))
			}
			if l.least != nil && !l.isDuration() {
				refused = append(refused, inFile(l.key, fmt.Sprint(*l.least-1)))
			}
			if l.isDuration() {
				refused = append(refused, inFile(l.key, "5"), inFile(l.key, "'5'"), inFile(l.key, "-1s"))
			}
			if l.oneOf != nil {
				refused = append(refused, inFile(l.key, "other"), inFile(l.key, "[other]"))
			}
		}
	}
	clean(t)
	for _, content := range long.Every(7, refused) {
		if s.Validate(asJSON(t, content)) == nil {
			t.Errorf("the schema takes %s", content)
		}
		if _, err := Load(homeWith(t, "corebot.yaml", content)); err == nil {
			t.Errorf("the loader takes %s", content)
		}
	}
}

// inFile writes a key and its value as a file has them.
func inFile(key, value string) string {
	return strings.ReplaceAll(key, ".", ": {") + ": " + value + strings.Repeat("}", strings.Count(key, "."))
}

func TestTheSchemaDescribesEverySettingAndHasNoDefaultForASecret(t *testing.T) {
	top := Schema().(schemaObject)
	for _, l := range leaves() {
		setting := top.holder(l.key).Properties[l.key[strings.LastIndex(l.key, ".")+1:]]
		unset := l.oneOf != nil && l.standard == "" // no value stands for itself
		if setting.Description == "" || setting.WriteOnly != l.isSecret() ||
			(setting.Default == nil) != (l.isSecret() || unset) {
			t.Errorf("%s: %+v", l.key, setting)
		}
	}
}
