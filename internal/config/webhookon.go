package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// TokenFile is where a home keeps the webhook's token, unless its settings say otherwise.
const TokenFile = "webhook.token"

// TurnWebhookOn enables the webhook in the settings file of a home. If the file names neither a token nor a secret, the
// webhook gets the token of [TokenFile]. All else in the file stays as it is, comments too. The result is the path of
// the file if it was changed. A file that cannot be changed so is left alone; the hint of the error says what to write
// into it.
func TurnWebhookOn(home string) (changed string, err error) {
	path, err := findFile(home)
	if path == "" || err != nil {
		return "", err
	}
	before, err := readFile(path)
	if err != nil {
		return "", err
	}
	tree := map[string]any{}
	if err := decode(path, before, tree); err != nil {
		return "", corebot.WithHint(fmt.Errorf("read %s: %w", path, err), "correct the file; nothing was changed")
	}
	want := withWebhook(tree)
	if reflect.DeepEqual(want, tree) {
		return "", nil
	}
	after := map[string]any{}
	text := editWebhook(string(before), !hasCredential(tree))
	if !isYAML(path) || decode(path, []byte(text), after) != nil || !reflect.DeepEqual(after, want) {
		return "", corebot.WithHint(fmt.Errorf("%s was not changed: Corebot cannot be sure to keep all that is in it",
			path), byHand(hasCredential(tree)))
	}
	return path, replaceFile(path, text)
}

func isYAML(path string) bool { return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) }

// byHand says what to write into a settings file.
func byHand(credential bool) string {
	if credential {
		return "set webhook.enabled to true in it"
	}
	return "set webhook.enabled to true and webhook.token to file:" + TokenFile + " in it"
}

// webhookKey is the key of the section as the file spells it.
func webhookKey(tree map[string]any) string {
	for name := range tree {
		if strings.EqualFold(name, "webhook") {
			return name
		}
	}
	return "webhook"
}

func webhookOf(tree map[string]any) map[string]any {
	section, _ := asSection(tree[webhookKey(tree)])
	return section
}

// hasCredential says whether the section names a token or a secret.
func hasCredential(tree map[string]any) bool {
	for name, value := range webhookOf(tree) {
		if (strings.EqualFold(name, "token") || strings.EqualFold(name, "secret")) && value != nil {
			return true
		}
	}
	return false
}

// withWebhook is what a changed file must say.
func withWebhook(tree map[string]any) map[string]any {
	section := map[string]any{"enabled": true}
	for name, value := range webhookOf(tree) {
		if !strings.EqualFold(name, "enabled") {
			section[name] = value
		} else if on, wrong := parseBool(value); wrong == nil && on == true {
			section["enabled"] = value
		}
	}
	if !hasCredential(tree) {
		section["token"] = fileReference + TokenFile
	}
	want := map[string]any{}
	for name, value := range tree {
		want[name] = value
	}
	want[webhookKey(tree)] = section
	return want
}

var (
	webhookLine  = lazy.Regexp(`(?i)^webhook:\s*(#.*)?$`)
	enabledLine  = lazy.Regexp(`(?i)^(\s+enabled:)\s*[^\s#]*(.*)$`)
	settingLine  = lazy.Regexp(`^(\s+)[^\s#]`)
	commentBlock = lazy.Regexp(`(?m)^# webhook:(\r?\n)#   enabled: true(\r?\n)#   token: file:webhook\.token`)
)

// editWebhook changes the text of a YAML file: its section, else the commented one that `corebot init` writes, else a
// new one at the end.
func editWebhook(text string, token bool) string {
	end := "\n"
	if strings.Contains(text, "\r\n") {
		end = "\r\n"
	}
	lines := strings.Split(text, end)
	if at := slices.IndexFunc(lines, webhookLine().MatchString); at >= 0 {
		return strings.Join(editSection(lines, at, token), end)
	}
	if commentBlock().MatchString(text) {
		return commentBlock().ReplaceAllString(text, "webhook:${1}  enabled: true${2}  token: file:webhook.token")
	}
	if text != "" && !strings.HasSuffix(text, end) {
		text += end
	}
	return text + "webhook:" + end + "  enabled: true" + end + "  token: file:" + TokenFile + end
}

// editSection changes the section that begins at a line.
func editSection(lines []string, at int, token bool) []string {
	indent, enabled, first := "  ", -1, true
	for i := at + 1; i < len(lines); i++ {
		trimmed := strings.TrimSpace(lines[i])
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		found := settingLine().FindStringSubmatch(lines[i])
		if found == nil {
			break
		}
		if first {
			indent, first = found[1], false
		}
		if found[1] == indent && enabledLine().MatchString(lines[i]) {
			enabled = i
		}
	}
	if enabled < 0 {
		enabled = at + 1
		lines = slices.Insert(lines, enabled, indent+"enabled: true")
	} else {
		lines[enabled] = enabledLine().ReplaceAllString(lines[enabled], "${1} true${2}")
	}
	if token {
		lines = slices.Insert(lines, enabled+1, indent+"token: file:"+TokenFile)
	}
	return lines
}

// replaceFile writes a file anew, all of it or nothing, with the mode that it had.
func replaceFile(path, text string) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return fmt.Errorf("change the settings: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("change the settings: %w", err)
	}
	fresh := path + ".new"
	if err := errors.Join(writeWhole(fresh, text, info.Mode().Perm()), os.Rename(fresh, path)); err != nil {
		return errors.Join(fmt.Errorf("change the settings: %w", err), os.Remove(fresh))
	}
	return nil
}

func writeWhole(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
