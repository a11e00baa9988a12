package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// Change is a new value of one setting.
type Change struct {
	Key   string // such as llm.model
	Value any    // as JSON has it: a text, a number, a bool, a list or a map
}

// Edit is a settings file before and after some changes.
type Edit struct {
	Path          string
	Before, After string
}

// Changed says whether there is anything to write.
func (e Edit) Changed() bool { return e.Before != e.After }

// Apply writes the file, all of it or nothing.
func (e Edit) Apply() error {
	if _, err := os.Stat(e.Path); errors.Is(err, fs.ErrNotExist) {
		return writeWhole(e.Path, e.After, 0o600)
	}
	return replaceFile(e.Path, e.After)
}

// PlanEdit changes settings in the file of a home, and writes nothing yet. A home without a file gets the text of fresh
// first. All else in the file stays as it is, comments too. PlanEdit reads the new text again and compares it with
// what it must say. A file that cannot be changed so is refused, with a hint that says what to write into it.
func PlanEdit(home, fresh string, changes []Change) (Edit, error) {
	path, err := findFile(home)
	if err != nil {
		return Edit{}, err
	}
	e := Edit{Path: path, Before: fresh}
	if path == "" {
		e.Path, e.Before = filepath.Join(home, "corebot.yaml"), ""
	} else {
		data, err := readFile(path)
		if err != nil {
			return Edit{}, err
		}
		fresh, e.Before = string(data), string(data)
	}
	tree := map[string]any{}
	if err := decode(e.Path, []byte(fresh), tree); err != nil {
		return Edit{}, corebot.WithHint(fmt.Errorf("read %s: %w", e.Path, err), "correct the file; nothing was changed")
	}
	lines, want := strings.Split(fresh, "\n"), tree
	for _, c := range changes {
		value, err := json.Marshal(c.Value)
		if err != nil {
			return Edit{}, fmt.Errorf("spell the setting %s: %w", c.Key, err)
		}
		keys := strings.Split(c.Key, ".")
		was := settingOf(want, c.Key)
		want = with(want, keys, c.Value)
		byItem := setLines(slices.Clone(lines), keys, string(value), was)
		if says(e.Path, byItem, want) {
			lines = byItem
			continue
		}
		lines = setLines(lines, keys, string(value), nil)
	}
	e.After = strings.Join(lines, "\n")
	if !isYAML(e.Path) || !says(e.Path, lines, want) {
		return Edit{},
			corebot.WithHint(fmt.Errorf("%s was not changed: Corebot cannot be sure to keep all that is in it",
				e.Path), "write into it: "+spelt(changes))
	}
	return e, nil
}

func spelt(changes []Change) string {
	all := make([]string, len(changes))
	for i, c := range changes {
		value, _ := json.Marshal(c.Value)
		all[i] = c.Key + ": " + string(value)
	}
	return strings.Join(all, "; ")
}

// says reads the lines of a settings file again, and compares.
func says(path string, lines []string, want map[string]any) bool {
	tree := map[string]any{}
	return decode(path, []byte(strings.Join(lines, "\n")), tree) == nil && same(tree, want)
}

// same compares by JSON, in which a number has one spelling.
func same(a, b map[string]any) bool {
	norm := func(m map[string]any) (v any) {
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err != nil {
			return err
		}
		return v
	}
	return reflect.DeepEqual(norm(a), norm(b))
}

// with is a tree in which a setting has another value. The tree itself stays as it is.
func with(tree map[string]any, keys []string, value any) map[string]any {
	out, name := maps.Clone(tree), keys[0]
	if out == nil {
		out = map[string]any{}
	}
	for k := range out {
		if strings.EqualFold(k, name) {
			name = k
		}
	}
	if len(keys) > 1 {
		section, _ := asSection(out[name])
		value = with(section, keys[1:], value)
	}
	out[name] = value
	return out
}

// setLines gives a setting another value in the lines of a YAML file. A list that was there is changed item by item.
func setLines(lines []string, keys []string, value string, was any) []string {
	lo, hi, indent := 0, len(lines), ""
	for depth, key := range keys {
		at := keyLine(lines, lo, hi, indent, key)
		if at < 0 {
			return insertSetting(lines, lo, hi, indent, keys[depth:], value)
		}
		end := blockEnd(lines, at, hi, indent)
		if depth == len(keys)-1 {
			if items, ok := setItems(lines[at:end], was, value); ok {
				return slices.Replace(lines, at, end, items...)
			}
			return slices.Replace(lines, at, end, lines[at][:len(indent)+len(key)]+": "+value+commentOf(lines[at]))
		}
		lo, hi, indent = at+1, end, indentIn(lines, at+1, end, indent)
	}
	return lines
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " "))] }

// isSilent says that a line says nothing: it is blank or a comment.
func isSilent(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

func keyLine(lines []string, lo, hi int, indent, key string) int {
	for i := lo; i < hi; i++ {
		name, _, found := strings.Cut(lines[i], ":")
		if found && !isSilent(lines[i]) && indentOf(lines[i]) == indent && strings.EqualFold(name[len(indent):], key) {
			return i
		}
	}
	return -1
}

// blockEnd is behind the last line that belongs to a key.
func blockEnd(lines []string, at, hi int, indent string) int {
	end := at + 1
	for i := at + 1; i < hi; i++ {
		rest, deeper := strings.CutPrefix(lines[i], indent)
		switch {
		case isSilent(lines[i]):
		case deeper && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "- ")):
			end = i + 1
		default:
			return end
		}
	}
	return end
}

// indentIn is the indent of the settings of a section.
func indentIn(lines []string, lo, hi int, outer string) string {
	for i := lo; i < hi; i++ {
		if !isSilent(lines[i]) {
			return indentOf(lines[i])
		}
	}
	return outer + "  "
}

// commentOf is the comment behind the value of a line.
func commentOf(line string) string {
	if at := strings.LastIndex(line, " #"); at >= 0 && !strings.ContainsAny(line[at:], `"'`) {
		return line[at:]
	}
	return ""
}

// insertSetting writes a setting that is not there: first in its section, or as a new section at the end of the file.
func insertSetting(lines []string, lo, hi int, indent string, keys []string, value string) []string {
	var fresh []string
	for i, key := range keys {
		line := indent + strings.Repeat("  ", i) + key + ":"
		if i == len(keys)-1 {
			line += " " + value
		}
		fresh = append(fresh, line)
	}
	if lo > 0 {
		return slices.Insert(lines, lo, fresh...)
	}
	for hi > 0 && strings.TrimSpace(lines[hi-1]) == "" {
		hi--
	}
	return slices.Concat(lines[:hi], fresh, []string{""})
}

// item is an item of a list in a YAML file: its lines, with the comments that stand above it.
type item struct {
	lines []string
	value any // as JSON has it
	taken bool
}

// setItems gives the block of a list, from the line of its key on, other items. An item that stays keeps its lines,
// and so its comments. An item that takes the place of another keeps the comments of the other. It refuses a list of
// which two items share a line, such as a flow list: then ok is false.
func setItems(block []string, was any, value string) (fresh []string, ok bool) {
	var now []any
	if json.Unmarshal([]byte(value), &now) != nil || len(now) == 0 {
		return nil, false
	}
	items, dash := itemsOf(block, was)
	if items == nil {
		return nil, false
	}
	fresh = []string{block[0]}
	for at, v := range now {
		kept := slices.IndexFunc(items, func(i item) bool { return !i.taken && i.in([]any{v}) })
		if kept >= 0 {
			items[kept].taken = true
			fresh = append(fresh, items[kept].lines...)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		line := dash + " " + string(text)
		if at < len(items) && !items[at].in(now) {
			above, first := items[at].comments()
			fresh = append(fresh, above...)
			line += commentOf(first)
			items[at].taken = true
		}
		fresh = append(fresh, line)
	}
	return fresh, true
}

func (i item) in(values []any) bool {
	return slices.ContainsFunc(values, func(v any) bool { return reflect.DeepEqual(i.value, v) })
}

// comments are the lines above an item, and its first line.
func (i item) comments() (above []string, first string) {
	at := slices.IndexFunc(i.lines, func(line string) bool { return !isSilent(line) })
	return i.lines[:at], i.lines[at]
}

// itemsOf splits the block of a list. There are none if its items are not those that the list is known to have.
func itemsOf(block []string, was any) (items []item, dash string) {
	var values []any
	text, err := json.Marshal(was) // a number of YAML has the type of a number of JSON then
	if err != nil || json.Unmarshal(text, &values) != nil {
		return nil, ""
	}
	from := 1
	for at := 1; at < len(block); at++ {
		line := block[at]
		if dash == "" && !isSilent(line) {
			dash = indentOf(line) + "-"
		}
		switch {
		case isSilent(line):
		case line == dash || strings.HasPrefix(line, dash+" "):
			if len(items) == len(values) {
				return nil, ""
			}
			items = append(items, item{value: values[len(items)]})
		case len(items) == 0:
			return nil, ""
		}
		if isSilent(line) {
			continue
		}
		last := &items[len(items)-1]
		last.lines = append(last.lines, block[from:at+1]...)
		from = at + 1
	}
	if len(items) != len(values) {
		return nil, ""
	}
	return items, dash
}

// File is what a settings file says, as it is written there.
type File struct {
	Path string // empty: there is no file
	Text []byte
	tree map[string]any
}

// Said reads the settings file of a home. Without one it says nothing.
func Said(home string) (File, error) {
	path, err := findFile(home)
	if path == "" || err != nil {
		return File{}, err
	}
	data, err := readFile(path)
	if err != nil {
		return File{}, err
	}
	tree := map[string]any{}
	if err := decode(path, data, tree); err != nil {
		return File{}, corebot.WithHint(fmt.Errorf("read %s: %w", path, err), "correct the file; nothing was changed")
	}
	return File{path, data, tree}, nil
}

// Tree is what the file says: maps, lists and values.
func (f File) Tree() any { return f.tree }

// Setting is the value of a setting; nil if the file does not have it.
func (f File) Setting(key string) any { return settingOf(f.tree, key) }

func settingOf(tree map[string]any, key string) (value any) {
	value = tree
	for _, name := range strings.Split(key, ".") {
		section, _ := asSection(value)
		value = nil
		for k, v := range section {
			if strings.EqualFold(k, name) {
				value = v
			}
		}
	}
	return value
}

// Reveal gives the secret that a reference names, such as file:PATH or env:NAME.
func Reveal(home, reference string) (string, error) {
	r := &resolver{home: home, variable: os.Getenv}
	secret, _, err := r.resolve("api_key", reference)
	return secret, err
}

// WriteSecret puts a secret into a file that nobody else can read, in the place of what is there.
func WriteSecret(path, secret string) error {
	fresh := path + ".new"
	err := errors.Join(writeWhole(fresh, secret+"\n", 0o600), os.Rename(fresh, path))
	if err != nil {
		return fmt.Errorf("keep the secret in %s: %w", path, err)
	}
	return nil
}
