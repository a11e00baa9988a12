package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
)

// clean takes every variable out of the environment that this package reads.
func clean(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, "OPENAI_") {
			t.Setenv(name, value) // puts it back at the end
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// homeWith is a home with one settings file.
func homeWith(t *testing.T, name, content string) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

func load(t *testing.T, home string) Config {
	t.Helper()
	c, err := Load(home)
	if err != nil {
		t.Fatalf("load: %v (hint: %s)", err, corebot.HintOf(err))
	}
	return c
}

func TestAnEmptyHomeHasTheDefaults(t *testing.T) {
	clean(t)
	home := filepath.Join(t.TempDir(), "not made yet")
	want := Defaults()
	want.Home = home
	if got := load(t, home); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// everySetting gives each setting another value than its default, one that is valid.
func everySetting(t *testing.T) (yaml string, want Config) {
	t.Helper()
	want = Defaults()
	texts := map[string]string{
		"channels.on_ambiguous": "hold", "approvals.mode": "always", "bus.queue_mode": "collect", "chats.store": "none",
		"log.level":  "debug",
		"log.format": "json", "llm.base_url": "http://127.0.0.1:1/v1", "llm.context_tokens": "9000",
		"webhook.addr": "127.0.0.1:0", "observability.addr": "127.0.0.1:0", "console.addr": "127.0.0.1:0",
		"webhook.callback_url": "https://example.com/replies", "audit.url": "https://example.com/heads",
		"slo.webhook_url": "https://example.com/alarms", "slo.webhook_secret": signingSecret,
		"webhook.secret": signingSecret, "webhook.callback_secret": signingSecret,
		"admin.chat": "main:webhook::ops",
		"llm.prices": "gpt-4o=2.50/10", "usage.time_zone": "Local", "budget.chat_daily_cost": "1",
		"budget.principal_daily_cost":   "1.5",
		"budget.role_normal_daily_cost": "2", "budget.role_admin_daily_cost": "2.5", "budget.total_daily_cost": "3",
		"tools.web.allowed_domains": "example.com *.example.com", "tools.web.allow_private": "10.1.2.0/24 fd12::/16",
		"tools.shell.mode": "sandbox", "tools.shell.domains": "proxy.golang.org *.example.com",
		"tools.web.search": "searxng", "mcp.read_only": "mail/list mcp__files__*", "mcp.egress": "web/*",
		"tools.web.searxng_url": "http://127.0.0.1:8080", "tools.web.search_tool": "mcp__kagi__search",
		"channels.cli.access": "allowlist", "channels.cli.allowlist": "cli:local:1000 main:cli:local:main",
		"channels.mcp.access": "allowlist", "channels.mcp.allowlist": "mcp::client",
		"channels.api.access": "allowlist", "channels.api.allowlist": "api::app",
		"channels.webhook.access": "allowlist", "channels.webhook.allowlist": "* webhook::ann",
	}
	var b strings.Builder
	for _, s := range sections() {
		if s.isList() {
			value := another(t, s.leaves[0], "")
			s.leaves[0].put(&want, value)
			fmt.Fprintf(&b, "%s: %v\n", s.name, value)
			continue
		}
		depth := strings.Repeat("  ", strings.Count(s.name, "."))
		fmt.Fprintf(&b, "%s%s:\n", depth, s.name[strings.LastIndex(s.name, ".")+1:])
		for _, l := range s.leaves {
			value := another(t, l, texts[l.key])
			l.put(&want, value)
			switch v := value.(type) {
			case string:
				value = strconv.Quote(v) // an amount of money is text, too
			case Secret:
				value = v.Reveal()
			case Providers:
				value = v.text.Value()
			case Grants:
				value = v.String()
			}
			fmt.Fprintf(&b, "%s  %s: %v\n", depth, strings.TrimPrefix(l.key, s.name+"."), value)
		}
	}
	return b.String(), want
}

// signingSecret is whsec_ and base64 of 16 bytes, the shortest that is taken.
const signingSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="

// another is a value that is not the default.
func another(t *testing.T, l leaf, text string) any {
	switch v := l.standard.(type) {
	case string:
		return cmp.Or(text, "changed")
	case Secret:
		return NewSecret(cmp.Or(text, "0123456789abcdef"))
	case Providers:
		return NewProviders(everyProvider())
	case Entries[AgentEntry]:
		return NewEntries(everyAgent())
	case Entries[Route]:
		return NewEntries(Route{Channel: "webhook", Account: "work", Chat: "c1", Agent: everyAgent().ID})
	case Entries[ChatRule]:
		return NewEntries(ChatRule{Channel: "webhook", Account: "work", Chat: "c*", Store: "full", History: time.Hour})
	case Entries[OpenRoot]:
		return NewEntries(OpenRoot{Path: "/srv/project", Mode: RootWrite}, OpenRoot{Path: "~/notes", Mode: RootRead})
	case Grants:
		return NewGrants(corebot.ToolGrant{Tool: "mcp__*", Role: corebot.RoleAdmin},
			corebot.ToolGrant{Tool: "mcp.reload", Principal: corebot.Principal{Channel: "webhook", ID: "ann"}})
	case Number:
		return Number("0.97")
	case List[string]:
		if l.oneOf != nil {
			return NewList(l.oneOf...)
		}
		return NewList(strings.Fields(cmp.Or(text, "one two"))...)
	case List[int]:
		return NewList(81, 444)
	case bool:
		return !v
	case time.Duration:
		return v + time.Minute
	case int:
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		return v + 1
	case int64:
		return v + 1
	}
	t.Fatalf("%s is a %v: this test does not know it", l.key, l.kind)
	return nil
}

// everyProvider has a value in each field.
func everyProvider() Provider {
	return Provider{
		Name: "main", Kind: "anthropic", BaseURL: "http://127.0.0.1:1", APIKey: NewSecret("0123456789abcdef"),
		Models:  []string{"a", "b"},
		Headers: map[string]Secret{"X-Title": NewSecret("a bot")}, Vision: true, ThinkingTokens: 2000,
		Timeout: time.Minute, FirstByteTimeout: 2 * time.Minute, IdleTimeout: 3 * time.Minute,
	}
}

func TestEverySettingCanBeSetInTheFile(t *testing.T) {
	clean(t)
	yaml, want := everySetting(t)
	want.Home = homeWith(t, "corebot.yaml", yaml)
	want.ConsoleAsked = true
	if got := load(t, want.Home); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEverySettingCanBeSetInTheEnvironment(t *testing.T) {
	clean(t)
	yaml, want := everySetting(t)
	var path []string // of the section
	for line := range strings.Lines(yaml) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		path = path[:depth]
		value = strings.TrimSpace(value)
		if value == "" {
			path = append(path, name)
			continue
		}
		if text, err := strconv.Unquote(value); err == nil { // in a variable everything is text
			value = text
		}
		t.Setenv(variable(strings.Join(append(path, name), ".")), value)
	}
	want.Home = homeWith(t, "corebot.yaml", "bus: {max_attempts: 77}")
	want.ConsoleAsked = true
	if got := load(t, want.Home); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTheThreeFormatsSayTheSame(t *testing.T) {
	clean(t)
	for name, content := range map[string]string{
		"corebot.yaml": "bus:\n  max_attempts: 7\n  lease: 6s\nllm:\n  offline: true\n  model: x\n",
		"corebot.yml":  "BUS: {Max_Attempts: 7, lease: 6s}\nllm: {offline: true, model: x}\n",
		"corebot.toml": "[bus]\nmax_attempts = 7\nlease = \"6s\"\n[llm]\noffline = true\nmodel = \"x\"\n",
		"corebot.json": `{"bus":{"max_attempts":7,"lease":"6s"},"llm":{"offline":true,"model":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, homeWith(t, name, content))
			if c.Bus.MaxAttempts != 7 || c.Bus.Lease != 6*time.Second || !c.LLM.Offline || c.LLM.Model != "x" {
				t.Errorf("got %+v %+v", c.Bus, c.LLM)
			}
		})
	}
}

func TestAnEmptyFileSectionOrValueChangesNothing(t *testing.T) {
	clean(t)
	for _, content := range []string{
		"", "# nothing yet\n", "llm:\n", "llm: {}\n", "llm:\n  model:\n", "---\nllm:\n---\n",
	} {
		home := homeWith(t, "corebot.yaml", content)
		want := Defaults()
		want.Home = home
		if got := load(t, home); got != want {
			t.Errorf("%q: got %+v", content, got)
		}
	}
}

func TestMistakesInAFileAreRefusedWithTheirPlaceAndWhatToDo(t *testing.T) {
	clean(t)
	for name, c := range map[string]struct{ file, content, says, hint string }{
		"an unknown key": {
			"corebot.yaml", "bus: {max_atempts: 3}", `unknown key "bus.max_atempts"`,
			`"bus.max_attempts"`,
		},
		"an unknown section": {
			"corebot.yaml", "buss: {max_attempts: 3}", `unknown key "buss"`,
			`did you mean`,
		},
		"an unknown section that is empty": {"corebot.yaml", "zzz: {}", `unknown key "zzz"`, `no such setting`},
		"an unknown key that is empty": {
			"corebot.yaml", "llm: {zzz: }", `unknown key "llm.zzz"`,
			`no such setting`,
		},
		"a key that is not text": {"corebot.yaml", "llm: {1: x}", `unknown key "llm.1"`, `no such setting`},
		"something below a setting": {
			"corebot.yaml", "llm: {model: {name: x}}", `llm.model is not text`,
			"in quotes",
		},
		"a section that is a value": {"corebot.yaml", "bus: 3", `"bus" is a section`, `below it`},
		"a key twice, in other letters": {
			"corebot.yaml", "llm: {model: a, Model: b}", `"llm.model" is there twice`,
			"keep one",
		},
		"a key twice": {
			"corebot.yaml", "llm: {model: a, model: b}", "stands there twice",
			"correct the file",
		},
		"a key twice in JSON": {
			"corebot.json", `{"bus":{"lease":"5m"},"bus":{"lease":"6m"}}`, "the name \"bus\" stands there twice",
			"correct the file",
		},
		"a second document": {
			"corebot.yaml", "---\nbus: {lease: 5m}\n---\nllm: {model: a}\n", "several documents",
			"correct the file",
		},
		"a second document behind an empty one": {
			"corebot.yaml", "# settings\n---\n---\nllm: {model: a}\n", "several documents",
			"correct the file",
		},
		"a second document that cannot be read": {
			"corebot.yaml", "llm: {model: a}\n---\nllm: {model: a, model: b}", "stands there twice",
			"correct the file",
		},
		"no settings at all":         {"corebot.yaml", "hello", "a name, a colon and a value", "correct the file"},
		"a list":                     {"corebot.yaml", "- llm", "a name, a colon and a value", "correct the file"},
		"a tab":                      {"corebot.yaml", "llm:\n\tmodel: x", "line 2", "correct the file"},
		"TOML cut short":             {"corebot.toml", "[bus", "toml", "correct the file"},
		"JSON with a comma too many": {"corebot.json", `{"bus":{},}`, "a comma before", "correct the file"},
		"a word for a number": {
			"corebot.yaml", "bus: {max_attempts: many}",
			"bus.max_attempts is not a whole number", "digits",
		},
		"a fraction for a number": {
			"corebot.yaml", "bus: {max_attempts: 3.7}", "not a whole number",
			"digits",
		},
		"a list for a number": {
			"corebot.yaml", "bus: {max_attempts: [3]}", "not a whole number",
			"digits",
		},
		"a number beyond numbers": {
			"corebot.json", `{"bus":{"max_attempts":99999999999999999999}}`,
			"not a whole number", "digits",
		},
		"a duration without a unit":        {"corebot.yaml", "bus: {lease: 5}", "bus.lease is not a duration", "6s"},
		"a duration in quotes without one": {"corebot.yaml", "bus: {lease: '5'}", "bus.lease is not a duration", "6s"},
		"a duration in words":              {"corebot.yaml", "bus: {lease: soon}", "bus.lease is not a duration", "6s"},
		"a maybe": {
			"corebot.yaml", "llm: {offline: maybe}", "llm.offline is not yes or no",
			"true or false",
		},
		"a token that YAML reads as octal": {
			"corebot.yaml", "observability: {token: 0123456789}",
			"observability.token is not text", "in quotes",
		},
		"too large a file": {
			"corebot.yaml", strings.Repeat("#", maxFile+1), "the limit is 1048576",
			"move it away",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := homeWith(t, c.file, c.content)
			_, err := Load(home)
			if err == nil {
				t.Fatal("loaded")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), filepath.Join(home, c.file)) {
				t.Errorf("the error is %q, want %q and the file in it", err, c.says)
			}
			if !strings.Contains(corebot.HintOf(err), c.hint) {
				t.Errorf("the hint is %q, want %q in it", corebot.HintOf(err), c.hint)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

func TestValuesThatNothingCouldWorkWithAreRefused(t *testing.T) {
	clean(t)
	for content, says := range map[string]string{
		"log: {level: loud}":                             `log.level is "loud"`,
		"log: {format: xml}":                             `log.format is "xml"`,
		"chats: {store: some}":                           `chats.store is "some"`,
		"chats: {rules: [{chat: c1}]}":                   "chats.rules[0] says nothing",
		"chats: {rules: [{chat: 'a*b', store: none}]}":   `chats.rules[0].chat is "a*b"`,
		"chats: {rules: [{store: none, history: 1h}]}":   "chats.rules[0] keeps nothing, and says for how long",
		"chats: {rules: [{store: registered}]}":          `chats.rules[0].store is "registered"`,
		"channels: {on_ambiguous: guess}":                `channels.on_ambiguous is "guess"`,
		"llm: {base_url: 'localhost:8080'}":              "llm.base_url is not an address",
		"llm: {base_url: 'ftp://host/v1'}":               "llm.base_url is not an address",
		"llm: {base_url: 'http://'}":                     "llm.base_url is not an address",
		"llm: {timeout: 0s}":                             "llm.timeout is 0s",
		"llm: {first_byte_timeout: -1s}":                 "llm.first_byte_timeout is -1s",
		"llm: {idle_timeout: 0s}":                        "llm.idle_timeout is 0s",
		"llm: {output_tokens: 0}":                        "llm.output_tokens is 0",
		"llm: {context_tokens: 100, output_tokens: 100}": "llm.context_tokens is 100",
		"agent: {max_tool_iterations: 0}":                "agent.max_tool_iterations is 0",
		"agent: {max_time: 0s}":                          "agent.max_time is 0s",
		"agent: {session_idle: -1s}":                     "agent.session_idle is -1s",
		"agent: {compaction_timeout: 0s}":                "agent.compaction_timeout is 0s",
		"agent: {compaction_keep_tokens: -1}":            "agent.compaction_keep_tokens is -1",
		"{llm: {context_tokens: 9000, output_tokens: 1000}, agent: {compaction_keep_tokens: 4000, " +
			"compaction_reserve_tokens: 4000}}": "agent.compaction_reserve_tokens and agent.compaction_keep_tokens " +
			"are 8000 together",
		"bus: {lease: 999ms}":                      "bus.lease is 999ms",
		"bus: {max_attempts: 0}":                   "bus.max_attempts is 0",
		"bus: {backoff_base: 0s}":                  "bus.backoff_base is 0s",
		"bus: {backoff_base: 2s, backoff_max: 1s}": "bus.backoff_max is 1s",
		"bus: {drain: -1s}":                        "bus.drain is -1s",
		"bus: {max_message_bytes: 0}":              "bus.max_message_bytes is 0",
		"bus: {lane_depth: 0}":                     "bus.lane_depth is 0",
		"bus: {total_depth: 0}":                    "bus.total_depth is 0",
		"bus: {total_bytes: 0}":                    "bus.total_bytes is 0",
		"router: {workers: 0}":                     "router.workers is 0",
		"{bus: {dedupe_ttl: 1m}, retention: {messages: 6m}}": "retention.messages is 6m and " +
			"slo.answered_within is 5m",
		"{bus: {dedupe_ttl: 1m}, retention: {messages: 7m}, slo: {answered: 0, delivered_within: 6m}}": "" +
			"retention.messages is 7m and slo.delivered_within is 6m",
		"tools: {timeout: 0s}":          "tools.timeout is 0s",
		"tools: {max_output_bytes: 0}":  "tools.max_output_bytes is 0",
		"observability: {addr: '3210'}": "observability.addr",
		"webhook: {max_body_bytes: 0}":  "webhook.max_body_bytes is 0",
		"webhook: {retention: 0s}":      "webhook.retention is 0s",
		"webhook: {max_connections: 0}": "webhook.max_connections is 0",
		"webhook: {max_streams: 0}":     "webhook.max_streams is 0",
		"llm: {api_key: 'two words'}":   "llm.api_key has a character",
	} {
		_, err := Load(homeWith(t, "corebot.yaml", content))
		if err == nil || !strings.HasPrefix(err.Error(), says) || corebot.HintOf(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %s", content, err, corebot.HintOf(err), says)
		}
	}
}

func TestAnErrorNeverQuotesASecret(t *testing.T) {
	clean(t)
	for _, content := range []string{
		"llm: {base_url: 'user:hunter2@host'}", "llm: {api_key: [hunter2]}",
		"observability: {token: {hunter2: 1}}",
	} {
		_, err := Load(homeWith(t, "corebot.yaml", content))
		if err == nil || strings.Contains(err.Error()+corebot.HintOf(err), "hunter2") {
			t.Errorf("%s: got %v (hint %q)", content, err, corebot.HintOf(err))
		}
	}
}

func TestAListenerThatOthersCanReachNeedsAToken(t *testing.T) {
	clean(t)
	for addr, needs := range map[string]bool{
		"127.0.0.1:0": false, "127.8.8.8:0": false, "[::1]:0": false, "localhost:0": false,
		"[::ffff:127.0.0.1]:0": false,
		"0.0.0.0:0":            true, ":0": true, "[::]:0": true, "192.168.1.1:0": true, "example.com:0": true,
		"localhost.example.com:0": true,
	} {
		t.Setenv("COREBOT_OBSERVABILITY_ADDR", addr)
		_, err := Load(t.TempDir())
		if (err != nil) != needs || needs && !strings.Contains(corebot.HintOf(err), "token") {
			t.Errorf("%s without a token: %v", addr, err)
		}
		for name, value := range map[string]string{
			"COREBOT_OBSERVABILITY_TOKEN":   "t0ken",
			"COREBOT_OBSERVABILITY_ENABLED": "false",
		} {
			t.Setenv(name, value)
			if _, err := Load(t.TempDir()); err != nil {
				t.Errorf("%s with %s=%s: %v", addr, name, value, err)
			}
			t.Setenv(name, "")
		}
	}
}

func TestTwoSettingsFilesAreRefused(t *testing.T) {
	clean(t)
	home := homeWith(t, "corebot.yaml", "")
	if err := os.WriteFile(filepath.Join(home, "corebot.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(home)
	if err == nil || !strings.Contains(err.Error(), "corebot.yaml and corebot.json") ||
		corebot.HintOf(err) != "keep one of them" {
		t.Errorf("got %v (hint %q)", err, corebot.HintOf(err))
	}
}

func TestASettingsFileThatIsNoFileIsRefusedAtOnce(t *testing.T) {
	clean(t)
	for name, spoil := range map[string]func(path string) error{
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a dangling link": func(path string) error { return os.Symlink("nowhere", path) },
		"a device":        func(path string) error { return os.Symlink(os.DevNull, path) },
		"a pipe":          func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "corebot.yaml")
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(home); err == nil || !strings.Contains(err.Error(), path) || corebot.HintOf(err) == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSettingsThatOthersCanChangeAreRefused(t *testing.T) {
	clean(t)
	home := homeWith(t, "corebot.yaml", "observability: {token: 'file:token'}")
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	// nothing shuts others out
	if err := errors.Join(os.Chmod(filepath.Dir(home), 0o755), os.Chmod(home, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "corebot.yaml", "token"} {
		path := filepath.Join(home, name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode().Perm()|0o020)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Load(home); !errors.Is(err, owned.ErrNotOurs) ||
			!strings.HasSuffix(corebot.HintOf(err), "chmod g-w "+path) {
			t.Errorf("%q: got %v (%s)", name, err, corebot.HintOf(err))
		}
		if err := os.Chmod(path, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	load(t, home)
	empty := t.TempDir()
	if err := os.Chmod(empty, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(empty); !errors.Is(err, owned.ErrNotOurs) {
		t.Errorf("a home without settings: %v", err)
	}
}

func TestAHomeThatIsNoDirectoryIsRefused(t *testing.T) {
	clean(t)
	file := filepath.Join(homeWith(t, "file", ""), "file")
	if _, err := Load(file); err == nil || !strings.Contains(corebot.HintOf(err), "--home") {
		t.Errorf("got %v", err)
	}
}
