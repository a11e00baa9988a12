package backup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Settings are a file of settings as it was read.
type Settings struct {
	Path string // in the home
	Text []byte
	Tree any // what the text says: maps, lists, and values as JSON has them
	// As is the path of the file without its secrets, if it had any: a file in JSON.
	As string
}

// Stripper takes the secrets out of settings. It takes a text for a secret by the names on the way to it, or if it has
// a secret in it that Hide knows.
type Stripper struct {
	// Secret says whether the text at a path is a secret.
	Secret func(path []string) bool
	// Refers says whether a text only names where the secret is. Such a text stays.
	Refers func(text string) bool
	// Refer gives the reference that stands in the place of a secret.
	Refer func(path []string) string
	// Hide takes secrets out of any text.
	Hide func(text string) string
}

// Strip gives the settings without secrets, and the references that stand in their place. A file without secrets stays
// as it is, with its comments. Any other file is written anew, as JSON.
func (s Stripper) Strip(in Settings) (SettingsFile, error) {
	out := SettingsFile{Path: in.Path, Data: in.Text}
	tree := s.strip(&out, nil, in.Tree)
	clean := !slices.ContainsFunc(out.Secrets, func(one Secret) bool { return one.LeftOut })
	if clean && s.Hide(string(in.Text)) == string(in.Text) {
		return out, nil
	}
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return SettingsFile{}, fmt.Errorf("write %s without its secrets: %w", in.Path, err)
	}
	out.Path, out.Data = in.As, append(text, '\n')
	for i := range out.Secrets {
		out.Secrets[i].File = in.As
	}
	return out, nil
}

// strip gives a value of the tree without secrets.
func (s Stripper) strip(out *SettingsFile, path []string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		clean := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			clean[name] = s.strip(out, append(slices.Clip(path), name), v[name])
		}
		return clean
	case map[any]any: // YAML makes such a map where a name is no text
		texts := make(map[string]any, len(v))
		for name, inner := range v {
			texts[fmt.Sprint(name)] = inner
		}
		return s.strip(out, path, texts)
	case []any:
		clean := make([]any, len(v))
		for i, inner := range v {
			clean[i] = s.strip(out, append(slices.Clip(path), strconv.Itoa(i)), inner)
		}
		return clean
	case string:
		return s.text(out, path, v)
	}
	return value
}

func (s Stripper) text(out *SettingsFile, path []string, text string) string {
	named := s.Secret(path)
	one := Secret{File: out.Path, Setting: strings.Join(path, "."), Reference: text}
	switch {
	case text == "":
		return text
	case named && s.Refers(text):
	case named || s.Hide(text) != text:
		one.LeftOut, one.Reference = true, s.Refer(path)
	default:
		return text
	}
	out.Secrets = append(out.Secrets, one)
	return one.Reference
}
