package corebot_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/corebot/corebot"

// floors says on which floor of the house a package is. The longest entry that matches decides; "x/*" is what is below
// x. Imports of non-test files go strictly down.
var floors = map[string]int{
	"cmd/*": 5,

	"internal/app": 4, "internal/bench": 4, "internal/demo": 4,

	"tools/builtin": 3, "tools/isolation": 3, "mcp": 3, "mcp/*": 3, "channels/*": 3, "agent/llm/*": 3,
	"scheduler/*": 3, "internal/console": 3,

	"agent/llm/exchange": 2, "channels/cli/markdown": 2, "channels/matrix/sealed": 2,
	"storage": 2, "bus": 2, "router": 2, "agent": 2, "tools": 2,
	"channels": 2, "channels/markup": 2, "scheduler": 2, "agent/skills/pack": 2, "internal/httpapi": 2,

	"policy": 1, "observability": 1, "observability/slo": 1, "observability/otlp": 1,
	"agent/llm": 1, "agent/memory": 1, "agent/pages": 1, "agent/skills": 1,
	"internal/operate": 1, "storage/engine": 1, "internal/config": 1, "internal/live": 1,

	"": 0, "migrations": 0, "workspace": 0, "internal/*": 0,
}

// suites are packages that only tests import: they may look at everything.
var suites = map[string]bool{
	"channels/channeltest": true, "channels/channeltest/line": true, "channels/channeltest/platform": true,
	"channels/telegram/telegramtest": true,
	"channels/mail/mailtest":         true, "channels/matrix/matrixtest": true, "channels/irc/irctest": true,
	"channels/slack/slacktest": true, "channels/discord/discordtest": true,
	"bus/bustest": true, "storage/vfstest": true, "storage/seedtest": true,
	"storage/storagetest": true, "agent/llm/llmtest": true, "agent/llm/llmtest/cmd": true, "internal/apptest": true,
	"internal/long": true, "internal/needs": true,
}

func floorOf(pkg string) (int, bool) {
	if f, ok := floors[pkg]; ok {
		return f, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if f, ok := floors[dir+"/*"]; ok {
			return f, true
		}
	}
	return 0, false
}

// owners are the packages that alone may import a library.
var owners = map[string][]string{
	"modernc.org/sqlite":                           {"storage", "storage/engine", "channels/matrix/sealed"},
	"maunium.net/go/mautrix":                       {"channels/matrix/sealed"},
	"go.mau.fi/util":                               {"channels/matrix/sealed"},
	"modernc.org/libc":                             {"storage/engine"},
	"github.com/pressly/goose":                     {"storage"},
	"github.com/spf13/viper":                       {"internal/config"},
	"github.com/robfig/cron":                       {"scheduler"},
	"github.com/fsnotify/fsnotify":                 {"scheduler/eventfiles"},
	"github.com/mark3labs/mcp-go":                  {"mcp", "mcp/serve"},
	"github.com/sashabaranov/go-openai":            {"agent/llm/openai"},
	"github.com/rs/zerolog/log":                    {}, // the global logger
	module + "/internal/config":                    {"internal/app", "cmd/corebot"},
	module + "/internal/lifecycle":                 {"internal/app"},
	"github.com/anishathalye/porcupine":            {"bus/bustest"},
	"github.com/elastic/go-seccomp-bpf":            {"tools/isolation"},
	"google.golang.org/protobuf":                   {"observability/otlp"},
	"github.com/goccy/go-yaml":                     {"agent/skills"},
	"go.yaml.in/yaml":                              {"internal/config"},
	"github.com/go-json-experiment/json":           {"internal/strictjson"},
	"github.com/pelletier/go-toml":                 {"internal/redact"},
	"github.com/google/jsonschema-go":              {"internal/httpapi", "tools", "internal/jsonschema"},
	"github.com/rogpeppe/go-internal":              {"internal/linediff"},
	"github.com/spf13/cobra":                       {"cmd/corebot"},
	"codeberg.org/readeck/go-readability":          {"internal/webpage"},
	"github.com/JohannesKaufmann/html-to-markdown": {"internal/webpage"},
	"charm.land":                                   {"channels/cli"},
	"github.com/emersion":                          {"channels/mail", "channels/mail/mailtest"},
	"github.com/gorilla/websocket": {
		"channels/slack", "channels/slack/slacktest", "channels/discord", "channels/discord/discordtest",
		"internal/httpapi",
	},
	"github.com/ledongthuc/pdf": {"internal/pdftext"},
	"github.com/yuin/goldmark": {
		"internal/markdown", "channels/cli/markdown", "channels/markup", "internal/console",
	},
	"github.com/prometheus/client_golang/prometheus/promhttp": {"observability"},
}

// goFiles are the files of the module that go into programs: no tests.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata" ||
			d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// imports lists what every package of the module imports in its non-test files.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, file := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.ToSlash(filepath.Dir(file))
		if pkg == "." {
			pkg = ""
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[pkg] = append(found[pkg], name)
		}
	}
	return found
}

func TestImportsGoStrictlyDown(t *testing.T) {
	found := imports(t)
	if len(found) < 15 {
		t.Fatalf("only %d packages were found: the walk is broken", len(found))
	}
	for pkg, names := range found {
		if suites[pkg] {
			continue
		}
		from, ok := floorOf(pkg)
		if !ok {
			t.Errorf("package %s has no floor: give it one in floors", pkg)
		}
		for _, name := range names {
			inner, ours := strings.CutPrefix(name, module)
			inner = strings.TrimPrefix(inner, "/")
			if !ours {
				continue
			}
			if suites[inner] {
				t.Errorf("%s imports the test suite %s", pkg, inner)
			}
			if to, ok := floorOf(inner); ok && to >= from && !leaf(pkg, inner) {
				t.Errorf("%s (floor %d) imports %s (floor %d)", orRoot(pkg), from, orRoot(inner), to)
			}
		}
	}
}

// leaf: on the ground floor the root package and internal helpers may use each other where there is no circle; Go
// itself refuses circles.
func leaf(pkg, inner string) bool {
	from, _ := floorOf(pkg)
	return from == 0 && pkg != "" && (inner == "" || strings.HasPrefix(inner, "internal/"))
}

func orRoot(pkg string) string {
	if pkg == "" {
		return "the root package"
	}
	return pkg
}

func TestTheRootPackageUsesOnlyTheStandardLibrary(t *testing.T) {
	for _, name := range imports(t)[""] {
		if strings.Contains(name, ".") {
			t.Errorf("the root package imports %s", name)
		}
	}
}

func TestEachLibraryHasItsOwner(t *testing.T) {
	for pkg, names := range imports(t) {
		for _, name := range names {
			for library, allowed := range owners {
				if name != library && !strings.HasPrefix(name, library+"/") {
					continue
				}
				ok := suites[pkg]
				for _, a := range allowed {
					ok = ok || a == pkg
				}
				if !ok {
					t.Errorf("%s imports %s, which belongs to %v", orRoot(pkg), name, allowed)
				}
			}
		}
	}
}

// A log reader sees a bare number: the key has to name the unit. zerolog writes durations in milliseconds.
func TestEveryDurationInALogNamesItsUnit(t *testing.T) {
	key := regexp.MustCompile(`\.Dur\("([^"]*)"`)
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range key.FindAllSubmatch(text, -1) {
			if !bytes.HasSuffix(m[1], []byte("_ms")) {
				t.Errorf("%s: the key %q of a duration does not end in _ms", file, m[1])
			}
		}
	}
}

// A command that ends in milliseconds would compile every pattern of the program. Package lazy compiles one at its
// first use.
func TestNoPatternIsCompiledAtTheStart(t *testing.T) {
	atStart := regexp.MustCompile(`(?m)^(var |\t)\w+( \*regexp\.Regexp)?\s*= regexp\.MustCompile`)
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := atStart.Find(text); found != nil && !suites[filepath.ToSlash(filepath.Dir(file))] {
			t.Errorf("%s: write lazy.Regexp instead of regexp.MustCompile: %s", file, found)
		}
	}
}
