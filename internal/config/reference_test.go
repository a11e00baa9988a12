package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
)

func TestASecretIsReadFromWhereItsReferencePoints(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "key")
	for _, c := range []struct{ name, value, content, want string }{
		{"itself", "plain", "", "plain"},
		{"a file of the home", "file:secrets/key", "from-file\n", "from-file"},
		{"a file elsewhere", "file:" + elsewhere, "from-file", "from-file"},
		{"a line break of Windows", "file:secrets/key", "from-file\r\n", "from-file"},
		{"a variable", "env:SOME_KEY", "", "from-variable"},
		{"a reference is followed once", "env:REFERENCE", "", "env:SOME_KEY"},
		{
			"the longest file", "file:secrets/key", strings.Repeat("x", maxSecretFile-1) + "\n",
			strings.Repeat("x", maxSecretFile-1),
		},
	} {
		for _, by := range []string{"file", "environment"} {
			t.Run(c.name+", by the "+by, func(t *testing.T) {
				clean(t)
				t.Setenv("SOME_KEY", "from-variable")
				t.Setenv("REFERENCE", "env:SOME_KEY")
				home := t.TempDir()
				if by == "file" {
					home = homeWith(t, "corebot.yaml", "llm: {api_key: '"+c.value+"'}")
				} else {
					t.Setenv("OPENAI_API_KEY", c.value)
				}
				write(t, filepath.Join(home, "secrets", "key"), c.content, 0o600)
				write(t, elsewhere, c.content, 0o600)
				if got := load(t, home).LLM.APIKey.Reveal(); got != c.want {
					t.Errorf("got %.40q, want %.40q", got, c.want)
				}
			})
		}
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestAReferenceThatLeadsNowhereIsRefusedWithItsKeyAndItself(t *testing.T) {
	home := t.TempDir()
	write(t, filepath.Join(home, "empty"), "\n", 0o600)
	write(t, filepath.Join(home, "long"), strings.Repeat("x", maxSecretFile+1), 0o600)
	write(t, filepath.Join(home, "lines"), "one\ntwo\n", 0o600)
	write(t, filepath.Join(home, "folder", "x"), "", 0o600)
	if err := unix.Mkfifo(filepath.Join(home, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, says := range map[string]string{
		"env:NOT_THERE":  "observability.token: env:NOT_THERE: the variable is not set",
		"env:EMPTY":      "observability.token: env:EMPTY: the variable is not set",
		"file:not-there": "observability.token: file:not-there: open " + filepath.Join(home, "not-there"),
		"file:empty":     "observability.token: file:empty: it is empty",
		"file:long":      "observability.token: file:long: it is too long",
		"file:folder": "observability.token: file:folder: invalid: " + filepath.Join(home, "folder") +
			" is not a regular file",
		"file:pipe": "observability.token: file:pipe: invalid: " + filepath.Join(home, "pipe") +
			" is not a regular file",
		"file:lines":   "observability.token has a character that a header of HTTP cannot carry",
		"file:":        `observability.token: what follows "file:" is not a path`,
		"file:a\nb":    `observability.token: what follows "file:" is not a path`,
		"env:":         `observability.token: what follows "env:" is not the name of a variable`,
		"env:hunter-2": `observability.token: what follows "env:" is not the name of a variable`,
	} {
		clean(t)
		t.Setenv("EMPTY", "")
		t.Setenv("COREBOT_OBSERVABILITY_TOKEN", value)
		_, err := Load(home)
		if err == nil || !strings.HasPrefix(err.Error(), says) || corebot.HintOf(err) == "" ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v (hint %q), want %s", value, err, corebot.HintOf(err), says)
		}
	}
}

func TestOnlyTheReferenceThatIsInForceIsFollowed(t *testing.T) {
	clean(t)
	t.Setenv("COREBOT_LLM_API_KEY", "key")
	if got := load(t, homeWith(t, "corebot.yaml",
		"llm: {api_key: 'file:not-there'}")).LLM.APIKey.Reveal(); got != "key" {
		t.Errorf("got %q", got)
	}
}

func TestASecretThatEveryoneCanReadIsAWarning(t *testing.T) {
	for _, c := range []struct {
		name, value      string
		settings, secret os.FileMode
		warns            []string
	}{
		{"all is closed", "file:key", 0o600, 0o600, nil},
		{"the group may read", "file:key", 0o600, 0o640, nil},
		{"the secret's file is open", "file:key", 0o600, 0o644, []string{"key"}},
		{"only the reference is open", "file:key", 0o644, 0o600, nil},
		{"the settings are open and have the secret", "plain", 0o644, 0o600, []string{"corebot.yaml"}},
		{"the settings are closed and have the secret", "plain", 0o600, 0o600, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean(t)
			home := homeWith(t, "corebot.yaml", "llm: {api_key: '"+c.value+"'}")
			write(t, filepath.Join(home, "key"), "secret", 0o600)
			for name, mode := range map[string]os.FileMode{"corebot.yaml": c.settings, "key": c.secret} {
				if err := os.Chmod(filepath.Join(home, name), mode); err != nil { // the umask has no say in this
					t.Fatal(err)
				}
			}
			e, err := Explain(home)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range c.warns {
				want = append(want, "llm.api_key: every user of this machine can read "+filepath.Join(home, name)+
					" (chmod o-r)")
			}
			if !slices.Equal(e.Warnings, want) {
				t.Errorf("warns %q, want %q", e.Warnings, want)
			}
		})
	}
}
