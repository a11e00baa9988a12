package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/nearest"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/strictjson"
)

// fileNames are the settings files that a home may have, at most one of them.
var fileNames = []string{"corebot.yaml", "corebot.yml", "corebot.toml", "corebot.json"}

// maxFile bounds a settings file, in bytes: one that is longer is not one.
const maxFile = 1 << 20

// readFile sets what the home's file says, if there is one.
func (s *settings) readFile(home string) error {
	if err := owned.Check(home); errors.Is(err, owned.ErrNotOurs) {
		return fmt.Errorf("the home: %w", err)
	}
	path, err := findFile(home)
	if path == "" || err != nil {
		return err
	}
	data, err := readFile(path)
	if err != nil {
		return corebot.WithHint(err, cmp.Or(corebot.HintOf(err), "make it a readable settings file, or move it away"))
	}
	tree := map[string]any{}
	if err := decode(path, data, tree); err != nil {
		return corebot.WithHint(fmt.Errorf("read %s%w", path, err), "correct the file; nothing else was done")
	}
	return s.merge(path, "", tree, map[string]bool{})
}

// HasFile says whether a home has a settings file.
func HasFile(home string) (bool, error) {
	path, err := findFile(home)
	return path != "", err
}

// FileOf is the path of a home's settings file; empty: there is none.
func FileOf(home string) (string, error) { return findFile(home) }

// findFile gives the path of the home's one settings file, or nothing.
func findFile(home string) (string, error) {
	var found []string
	for _, name := range fileNames {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", corebot.WithHint(fmt.Errorf("look for settings: %w", err),
				"the home must be a directory that can be read; name another with --home or COREBOT_HOME")
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return filepath.Join(home, found[0]), nil
	}
	return "", corebot.WithHint(fmt.Errorf("%s has %s", home, strings.Join(found, " and ")), "keep one of them")
}

// readFile reads a plain file that nobody else can change: whoever writes the settings decides what Corebot does. It
// checks the file that it has opened, not the name. A pipe keeps nobody waiting.
func readFile(path string) ([]byte, error) {
	f, info, err := owned.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read the settings: %s has %d bytes, the limit is %d", path, info.Size(), maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return data, nil
}

// decode reads YAML, TOML or JSON, by the name of the file. Its errors are one line in plain words. They begin with the
// place in the file, or with a colon.
func decode(path string, data []byte, into map[string]any) (err error) {
	defer func() {
		if p := recover(); p != nil { // decoders of other people, on text of anyone
			err = fmt.Errorf(": it cannot be decoded: %v", p)
		}
	}()
	kind := strings.TrimPrefix(filepath.Ext(path), ".")
	decoder, err := viper.NewCodecRegistry().Decoder(kind)
	if err != nil {
		return fmt.Errorf(": %w", err)
	}
	if kind == "json" {
		if err := checkWhole(path, data); err != nil {
			return misread(kind, data, err)
		}
	}
	if err = decoder.Decode(data, into); err == nil {
		err = checkWhole(path, data)
	}
	if err != nil {
		return misread(kind, data, err)
	}
	return nil
}

// settingsLevels is how deep a settings file in JSON can be.
const settingsLevels = 100

// checkWhole refuses what a decoder skips without a word: a further document of YAML, or a second value of one name in
// JSON.
func checkWhole(path string, data []byte) error {
	switch filepath.Ext(path) {
	case ".json":
		return strictjson.Check(data, settingsLevels, strictjson.Rules{})
	case ".yaml", ".yml":
		documents := yaml.NewDecoder(bytes.NewReader(data))
		for first := true; ; first = false {
			var document any
			switch err := documents.Decode(&document); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case !first && document != nil:
				return errors.New("it has several documents, and settings are one: a line of --- begins another")
			}
		}
	}
	return nil
}

// merge sets what a file says, key by key in their order. It walks the file's own tree, because viper leaves out empty
// sections, unknown ones too. A key without a value is as if it were not written.
func (s *settings) merge(path, prefix string, tree map[string]any, seen map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		key, value := prefix+strings.ToLower(name), tree[name]
		network, isNetwork := s.isNetwork(key)
		if seen[key] {
			return corebot.WithHint(fmt.Errorf("%s: key %q is there twice", path, key), "keep one of them")
		}
		seen[key] = true
		var err error
		switch section, isSection := asSection(value); {
		case s.isKnown(key) && value != nil:
			err = s.set(fmt.Sprintf("%s: %s", path, key), key, value, origin{FromFile, path})
		case s.isKnown(key):
		case isNetwork:
			err = s.mergeAccounts(path, key, network, value)
		case !s.isSection(key):
			err = s.unknown(path, key)
		case isSection:
			err = s.merge(path, key+".", section, seen)
		case value != nil:
			err = corebot.WithHint(fmt.Errorf("%s: %q is a section, not a setting", path, key),
				fmt.Sprintf("put settings below it, such as %q", s.firstIn(key)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) isSection(key string) bool {
	for known := range s.leaves {
		if strings.HasPrefix(known, key+".") {
			return true
		}
	}
	return false
}

// asSection gives a value as a section. YAML makes another kind of map where a key is not text.
func asSection(value any) (map[string]any, bool) {
	switch m := value.(type) {
	case map[string]any:
		return m, true
	case map[any]any:
		section := make(map[string]any, len(m))
		for k, v := range m {
			section[fmt.Sprint(k)] = v
		}
		return section, true
	}
	return nil, false
}

// unknown refuses a key. It looks for the intended key in the section of the unknown one.
func (s *settings) unknown(where, key string) error {
	section, name := "", key
	if at := strings.LastIndexByte(key, '.'); at >= 0 {
		section, name = key[:at+1], key[at+1:]
	}
	var known []string
	for k := range s.leaves {
		if rest, in := strings.CutPrefix(k, section); in {
			rest, _, _ = strings.Cut(rest, ".")
			known = append(known, rest)
		}
	}
	var networks []string
	for _, n := range s.networks {
		networks = append(networks, n.Kind)
	}
	if section == "channels." {
		known = append(known, networks...)
	}
	hint := meant(name, known, func(near string) string { return section + near })
	moved := endOf(key, ".", slices.Collect(maps.Keys(s.leaves)))
	switch {
	case moved != "":
		hint = fmt.Sprintf("did you mean %q, at the top of the file?", moved)
	case hint == whereAll && section != "" && section != "channels.":
		hint = inSection(section, known)
	case section == "" && slices.Contains(networks, name):
		hint = fmt.Sprintf("the settings of a network are under channels.%s.main", name)
	case section == "channels." && hint == whereAll && len(networks) > 0:
		slices.Sort(networks)
		hint = "there is no such network; there are " + strings.Join(networks, ", ")
	}
	return corebot.WithHint(fmt.Errorf("%s: unknown key %q", where, key), hint)
}

// endOf is the known name with which a longer name ends, such as webhook.addr of channels.webhook.addr. It is empty if
// there is none, or if the known name is a single word.
func endOf(name, dot string, known []string) string {
	for rest, more := name, true; more; {
		if _, rest, more = strings.Cut(rest, dot); strings.Contains(rest, dot) && slices.Contains(known, rest) {
			return rest
		}
	}
	return ""
}

// firstIn is a setting of a section, as an example.
func (s *settings) firstIn(section string) string {
	for _, l := range leaves() {
		if strings.HasPrefix(l.key, section+".") {
			return l.key
		}
	}
	return section
}

// nearestOf is the known name that a misspelt name is likely to mean, or empty if none is close. It allows one edit for
// three letters, and at least one.
func nearestOf(misspelt string, known []string) string {
	name, edits := nearest.Name(misspelt, known)
	if 3*edits > max(len(misspelt)+1, 3) {
		return ""
	}
	return name
}

// namesTold is how many settings of a section a hint names.
const namesTold = 12

// inSection is the hint about a name that is like none of its section. Of a short section it tells all names.
func inSection(section string, known []string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	if len(known) == 0 || len(known) > namesTold {
		return whereAll
	}
	return fmt.Sprintf("there is no such setting; %s has %s", strings.TrimSuffix(section, "."),
		strings.Join(known, ", "))
}

// whereAll says where every setting is listed, for a name that is like none of them.
const whereAll = "there is no such setting; `corebot config print` lists them all"

// meant is the hint about a name that is not known. full gives the whole name of one that is.
func meant(name string, known []string, full func(string) string) string {
	slices.Sort(known)
	if near := nearestOf(name, known); near != "" {
		return "did you mean \"" + full(near) + "\"?"
	}
	return whereAll
}

// misread says in plain words, and with the place, why a decoder refuses a settings file. The words of the decoders
// are for programmers, and YAML's name the line at which a block begins, or none.
func misread(kind string, data []byte, err error) error {
	said := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(said, "into map[string]interface") || strings.Contains(said, "type map[string]interface") {
		return errors.New(": it has no settings at its top: a setting is a name, a colon and a value")
	}
	bad, placed := (*strictjson.Error)(nil), (interface{ Position() (row, column int) })(nil)
	switch {
	case errors.As(err, &bad):
		line, column := strictjson.Place(data, bad.At)
		return at(line, column, bad.Words(data))
	case errors.As(err, &placed): // TOML
		line, column := placed.Position()
		return at(line, column, tomlWords(strings.TrimPrefix(said, "toml: ")))
	case kind == "yaml" || kind == "yml":
		return misreadYAML(data, said)
	}
	return errors.New(": " + said)
}

func at(line, column int, words string) error {
	return fmt.Errorf(", line %d, column %d: %s", line, column, words)
}

// tomlWords are the words of the decoder of TOML, or plainer ones.
func tomlWords(said string) string {
	switch {
	case strings.Contains(said, "incomplete number"):
		return "a value is missing, or a text has no quotes around it"
	case strings.HasPrefix(said, "expected character "):
		return "want " + strings.TrimPrefix(said, "expected character ") + " here"
	}
	return said
}

var (
	yamlDoubled = lazy.Regexp(`line (\d+): mapping key ("[^"]*") already defined at line (\d+)`)
	yamlAlias   = lazy.Regexp(`unknown anchor '([^']*)' referenced`)
	yamlLine    = lazy.Regexp(`^yaml: line \d+: `)
)

// misreadYAML finds the place of a mistake in YAML, and names what people usually did there.
func misreadYAML(data []byte, said string) error {
	if m := yamlDoubled().FindStringSubmatch(said); m != nil {
		line, _ := strconv.Atoi(m[1])
		text, column, _ := lineOf(data, line)
		if name, err := strconv.Unquote(m[2]); err == nil { // two names can stand in one line
			column = max(column, 1+strings.LastIndex(text, name))
		}
		return at(line, column, fmt.Sprintf("the name %s stands there twice, and also in line %s", m[2], m[3]))
	}
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				line, column := strictjson.Place(data, i)
				return at(line, column, "bytes that are not UTF-8")
			}
			i += n
		}
	}
	if m := yamlAlias().FindStringSubmatch(said); m != nil {
		line, column := strictjson.Place(data, max(bytes.Index(data, []byte("*"+m[1])), 0))
		return at(line, column, "a value that begins with * needs quotes around it")
	}
	if !strings.HasPrefix(said, "yaml: ") {
		return errors.New(": " + said) // an error of ours
	}
	said = strings.TrimPrefix(yamlLine().ReplaceAllString(said, ""), "yaml: ")
	line := firstBadLine(data)
	text, column, indent := lineOf(data, line)
	words := said
	switch value := text[min(valueAt(text), len(text)):]; {
	case strings.Contains(indent, "\t"):
		column, words = 1+strings.IndexByte(indent, '\t'), "a tab before a name: YAML takes spaces"
	case strings.Contains(said, "cannot start any token") && value != "":
		column = 1 + utf8.RuneCountInString(text[:valueAt(text)])
		words = fmt.Sprintf("a value that begins with %c needs quotes around it", []rune(value)[0])
	case strings.Contains(said, "mapping values are not allowed"):
		words = "a colon too many: a value with a colon and a space in it needs quotes, and a name needs a colon " +
			"behind it"
	case strings.Contains(said, "unexpected end of stream"):
		words = "a quote that begins here, or below, is not closed"
	case strings.Contains(said, "did not find expected ',' or"):
		words = "a bracket that begins here, or above, is not closed, or a comma is missing"
	case strings.Contains(said, "could not find expected ':'"):
		words = "a name without a colon behind it"
	case strings.Contains(said, "did not find expected"):
		words = "this line does not fit those above it: see whether it is indented as they are, and whether quotes " +
			"are closed"
	}
	return at(line, column, words)
}

// valueAt is the byte at which the value of a line of YAML begins.
func valueAt(line string) int {
	if at := strings.Index(line, ": "); at >= 0 {
		return at + 2 + len(line[at+2:]) - len(strings.TrimLeft(line[at+2:], " "))
	}
	return len(line) - len(strings.TrimLeft(line, " -"))
}

// lineOf is a line of a file, the column at which its text begins, and what stands before that.
func lineOf(data []byte, line int) (text string, column int, indent string) {
	lines := strings.Split(string(data), "\n")
	text = lines[min(max(line, 1), len(lines))-1]
	indent = text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	return text, 1 + len(indent), indent
}

// lookAhead is how many lines a value of a settings file usually spans at most.
const lookAhead = 10

// firstBadLine is the line up to which a file of YAML cannot be read, and is no better with the lines that follow. A
// quoted text or a bracket over several lines is bad up to its last line only.
func firstBadLine(data []byte) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	good := func(n int) bool {
		var node yaml.Node
		return yaml.Unmarshal(slices.Concat(lines[:n]...), &node) == nil
	}
	low, high := 0, len(lines) // the lines up to low are good, and those up to high are bad
	for high-low > 1 {
		middle, better := (low+high)/2, 0
		for n := middle; n < min(high, middle+lookAhead) && better == 0; n++ {
			if good(n) {
				better = n
			}
		}
		if better > 0 {
			low = better
		} else {
			high = middle
		}
	}
	return max(high, 1)
}
