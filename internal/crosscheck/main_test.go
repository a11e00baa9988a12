package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsThereOnOneSystemOnlyIsNoticed, in a module without imports, whose list takes no time.
func TestWhatIsThereOnOneSystemOnlyIsNoticed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module a\n\ngo 1.26\n", "a.go": "package a\n\nvar _ = only()\n",
		"a_linux.go": "package a\n\nfunc only() int { return 1 }\n",
		"b/b.go":     "package b\n\nfunc _() { var x int = \"\" }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string][]string{
		"linux": {"b.go:3:"}, "darwin": {"undefined: only", "b.go:3:"},
	} {
		wrong, err := check(dir, system, "arm64")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(strings.Join(texts(wrong), "\n"), part) {
				t.Errorf("%s: %q does not say %q", system, wrong, part)
			}
		}
		if system == "linux" && strings.Contains(strings.Join(texts(wrong), "\n"), "only") {
			t.Errorf("linux: %q", wrong)
		}
	}
	if _, err := check(dir, "linux", "arm65"); err == nil {
		t.Error("there is a machine arm65")
	}
}

func texts(all []error) (out []string) {
	for _, err := range all {
		out = append(out, err.Error())
	}
	return out
}
