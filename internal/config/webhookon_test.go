package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestTheWebhookIsTurnedOnAndAllElseInTheFileStays(t *testing.T) {
	clean(t)
	for name, c := range map[string]struct{ before, after string }{
		"an empty file": {"", "webhook:\n  enabled: true\n  token: file:webhook.token\n"},
		"other settings": {
			"bus: {lease: 5s} # short\n",
			"bus: {lease: 5s} # short\nwebhook:\n  enabled: true\n  token: file:webhook.token\n",
		},
		"no line end": {
			"log: {level: warn}",
			"log: {level: warn}\nwebhook:\n  enabled: true\n  token: file:webhook.token\n",
		},
		"the comment that init writes": {
			"# mine\n# webhook:\n#   enabled: true\n#   token: file:webhook.token\nlog: {level: warn}\n",
			"# mine\nwebhook:\n  enabled: true\n  token: file:webhook.token\nlog: {level: warn}\n",
		},
		"a section that is off": {
			"webhook: # over HTTP\n    # later\n    enabled: no # not yet\n    token: 0123456789abcdef-mine\nlog:\n  " +
				"level: warn\n",
			"webhook: # over HTTP\n    # later\n    enabled: true # not yet\n    token: " +
				"0123456789abcdef-mine\nlog:\n  level: warn\n",
		},
		"a section without it": {
			"webhook:\n  addr: 127.0.0.1:9000\n\nlog: {level: warn}\n",
			"webhook:\n  enabled: true\n  token: file:webhook.token\n  addr: 127.0.0.1:9000\n\nlog: {level: warn}\n",
		},
		"an empty section": {"webhook:\n", "webhook:\n  enabled: true\n  token: file:webhook.token\n"},
		"lines of Windows": {
			"log: {level: warn}\r\n",
			"log: {level: warn}\r\nwebhook:\r\n  enabled: true\r\n  token: file:webhook.token\r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := homeWith(t, "corebot.yaml", c.before)
			path := filepath.Join(home, "corebot.yaml")
			if changed, err := TurnWebhookOn(home); changed != path || err != nil {
				t.Fatalf("changed %q: %v (%s)", changed, err, corebot.HintOf(err))
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != c.after {
				t.Errorf("the file is\n%s\nwant\n%s\n%v", got, c.after, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("its mode is %v: %v", info.Mode(), err)
			}
			if changed, err := TurnWebhookOn(home); changed != "" || err != nil {
				t.Errorf("turned on again it changed %q: %v", changed, err)
			}
		})
	}
}

func TestAFileThatCannotBeChangedWithCareIsLeftAlone(t *testing.T) {
	clean(t)
	for name, c := range map[string]struct{ file, text, hint string }{
		"a section in braces": {
			"corebot.yaml", "webhook: {addr: '127.0.0.1:9000'}\n",
			"webhook.token to file:webhook.token",
		},
		"with a token": {
			"corebot.yaml", "webhook: {token: 0123456789abcdef-mine}\n",
			"set webhook.enabled to true in it",
		},
		"the end of YAML": {"corebot.yaml", "log: {level: warn}\n...\n", "set webhook.enabled"},
		"TOML":            {"corebot.toml", "[log]\nlevel = \"warn\"\n", "set webhook.enabled"},
		"JSON":            {"corebot.json", "{}", "set webhook.enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			home := homeWith(t, c.file, c.text)
			changed, err := TurnWebhookOn(home)
			if changed != "" || err == nil || !strings.Contains(corebot.HintOf(err), c.hint) {
				t.Errorf("changed %q: %v (%s)", changed, err, corebot.HintOf(err))
			}
			if got, err := os.ReadFile(filepath.Join(home, c.file)); err != nil || string(got) != c.text {
				t.Errorf("the file is %q: %v", got, err)
			}
		})
	}
}

func TestListenersNeedPortsThatThereAreAndOneEach(t *testing.T) {
	clean(t)
	for content, says := range map[string]string{
		"observability: {addr: '127.0.0.1:99999'}":                                     `there is no port "99999"`,
		"observability: {addr: '127.0.0.1:-1'}":                                        `there is no port "-1"`,
		"observability: {addr: '127.0.0.1:'}":                                          `there is no port ""`,
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.1:70000'}": `there is no port "70000"`,
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.1:3210'}":  "two listeners on one port",
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: 'localhost:3210'}":  "two listeners on one port",
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: ':3210'}":           "two listeners on one port",
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '[::]:3210'}":       "two listeners on one port",
		"console: {enabled: true, addr: '127.0.0.1:3210'}":                             "two listeners on one port",
		"console: {enabled: true, addr: '127.0.0.1:70000'}":                            `there is no port "70000"`,
		"console: {enabled: true, addr: '0.0.0.0:3211'}":                               "names no proxy",
		"console: {enabled: true, allowed_hosts: ['a b']}":                             "allowed_hosts",
	} {
		if _, err := Load(homeWith(t, "corebot.yaml", content)); err == nil || !strings.Contains(err.Error(), says) ||
			corebot.HintOf(err) == "" {
			t.Errorf("%s: %v (%s)", content, err, corebot.HintOf(err))
		}
	}
	for _, content := range []string{
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.1:0'}\nobservability: {addr: " +
			"'127.0.0.1:0'}",
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.2:3210'}",
		"webhook: {addr: '127.0.0.1:3210'}",
		"console: {enabled: false, addr: '0.0.0.0:3210'}",
		"console: {enabled: true, addr: '0.0.0.0:3211', allowed_hosts: [bot.example.com]}",
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.1:3210'}\nobservability: {enabled: false}",
	} {
		load(t, homeWith(t, "corebot.yaml", content))
	}
}

func TestYesAndNoHaveAllTheirWords(t *testing.T) {
	clean(t)
	for word, want := range map[string]bool{
		"yes": true, "Yes": true, "on": true, "ON": true, "y": true, "true": true, "no": false, "No": false,
		"off": false, "n": false, "false": false,
	} {
		if got := load(t, homeWith(t, "corebot.yaml", "llm: {discover: "+word+"}")).LLM.Discover; got != want {
			t.Errorf("%s is %v in a file", word, got)
		}
		t.Setenv("COREBOT_LLM_OFFLINE", word)
		if got := load(t, t.TempDir()).LLM.Offline; got != want {
			t.Errorf("%s is %v in the environment", word, got)
		}
		t.Setenv("COREBOT_LLM_OFFLINE", "")
	}
}

func TestOnlyANearNameIsSuggested(t *testing.T) {
	clean(t)
	for content, hint := range map[string]string{
		"telegram: {token: x}":           whereAll,
		"webhok: {enabled: true}":        `did you mean "webhook"?`,
		"channels: {webhook: {addr: x}}": `did you mean "webhook.addr", at the top of the file?`,
		"llm: {modle: x}":                `did you mean "llm.model"?`,
		"log: {file: x}":                 "there is no such setting; log has format, level",
		"llm: {temperature: 1}":          whereAll,
		"tools: {shel: {allow: []}}":     `did you mean "tools.shell"?`,
		"tools: {shell: {alow: []}}":     `did you mean "tools.shell.allow"?`,
		"llm: {providers: [{nam: x}]}":   `did you mean "name"?`,
	} {
		if _, err := Load(homeWith(t, "corebot.yaml", content)); err == nil || corebot.HintOf(err) != hint {
			t.Errorf("%s: %v\nhint %s", content, err, corebot.HintOf(err))
		}
	}
	for name, hint := range map[string]string{
		"COREBOT_HOMEE": `did you mean "COREBOT_HOME"?`, "COREBOT_LLM_MODLE": `did you mean "COREBOT_LLM_MODEL"?`,
		"COREBOT_CHANNELS_WEBHOOK_ADDR": `did you mean "COREBOT_WEBHOOK_ADDR"?`,
		"COREBOT_TELEGRAM_TOKEN":        whereAll,
	} {
		t.Setenv(name, "x")
		if _, err := Load(t.TempDir()); err == nil || corebot.HintOf(err) != hint {
			t.Errorf("%s: %v\nhint %s", name, err, corebot.HintOf(err))
		}
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWordThatIsNoneOfThoseIsToldThem(t *testing.T) {
	clean(t)
	_, err := Load(homeWith(t, "corebot.yaml", "tools: {shell: {mode: on}}"))
	want := "it must be one of: off, sandbox, host; or leave it out"
	if err == nil || corebot.HintOf(err) != want {
		t.Errorf("%v\nhint %s, want %s", err, corebot.HintOf(err), want)
	}
}

func TestTheConsoleIsAskedForByAnyOfItsKeys(t *testing.T) {
	clean(t)
	for text, want := range map[string]bool{
		"": false, "log: {level: info}": false, "console: {enabled: false}": true,
		"console: {addr: '127.0.0.1:3211'}":                                           true,
		"webhook: {enabled: true, token: 0123456789abcdef-x, addr: '127.0.0.1:3211'}": false,
	} {
		if c := load(t, homeWith(t, "corebot.yaml", text)); c.ConsoleAsked != want {
			t.Errorf("%q asks for it: %v", text, c.ConsoleAsked)
		}
	}
}
