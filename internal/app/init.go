package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

// starter is the settings file of a new home. Everything in it is a comment: the defaults are good.
const starter = `# Settings of Corebot. Nothing here is needed: every key has a default.
# ` + "`corebot config print`" + ` shows what is in force, ` + "`corebot config check`" + ` whether this file is right.

# A model: any OpenAI-compatible endpoint. Without one Corebot looks for a server on this machine, and else uses the
# offline model. OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL work too.
# llm:
#   base_url: https://api.openai.com/v1
#   api_key: env:OPENAI_API_KEY
#   model: gpt-4o-mini
# Several providers are tried in order, each left alone for a while when it fails:
# llm:
#   providers:
#   - {name: main, kind: anthropic, api_key: env:ANTHROPIC_API_KEY, models: [claude-sonnet-4-5]}
#   - {name: near, base_url: http://127.0.0.1:11434/v1, models: [llama3.2]}

# Messages over HTTP. The token is in the file beside this one.
%swebhook:
%s  enabled: true
%s  token: file:webhook.token
`

// Made is what [Init] did to a home: the paths of files that were not there, and of those that it changed.
type Made struct {
	Files   []string
	Changed []string
}

// Init makes a home: directories, a settings file with comments, a token for the webhook, and the workspace with its
// texts. It changes no file that is there, with one exception: with webhook set, it enables the webhook in an existing
// settings file.
func Init(home string, webhook bool) (made Made, err error) {
	if err := checkOwner(place{home, corebot.DefaultAgent}); err != nil {
		return made, err
	}
	for _, dir := range []string{home, DataDir(home)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return made, corebot.WithHint(fmt.Errorf("make the home: %w", err), owned.Elsewhere(err, home))
		}
	}
	w, err := openWorkspace(place{home, corebot.DefaultAgent}, rootfs.Quota{}, nil, zerolog.Nop())
	if err != nil {
		return made, err
	}
	if err := w.root.Close(); err != nil {
		return made, err
	}
	if err := made.add(filepath.Join(home, config.TokenFile), rand.Text()+"\n"); err != nil {
		return made, err
	}
	if err := made.settings(home, webhook); err != nil {
		return made, err
	}
	_, err = LoadConfig(home)
	return made, err
}

// settings makes the settings file, unless the home has one, and turns the webhook on in it.
func (m *Made) settings(home string, webhook bool) error {
	has, err := config.HasFile(home)
	switch {
	case err != nil:
		return err
	case !has:
		comment := "# "
		if webhook {
			comment = ""
		}
		return m.add(filepath.Join(home, "corebot.yaml"), fmt.Sprintf(starter, comment, comment, comment))
	case !webhook:
		return nil
	}
	changed, err := config.TurnWebhookOn(home)
	if changed != "" {
		m.Changed = append(m.Changed, changed)
	}
	return err
}

// add makes a file, unless it is there.
func (m *Made) add(path, text string) error {
	created, err := create(path, text)
	if created {
		m.Files = append(m.Files, path)
	}
	return err
}

// create writes a file that does not exist.
func create(path, text string) (bool, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	return err == nil, errors.Join(err, f.Close())
}

// FoundModel says which model would answer, and why that one.
func FoundModel(ctx context.Context, c config.Config) (name, why string, err error) {
	chosen, err := chooseModel(ctx, c.LLM, nil)
	if err != nil {
		return "", "", err
	}
	return chosen.model.Name(), chosen.why, nil
}

// Check says whether a start gets past the settings. Loading has checked each by itself; this asks the parts that know
// what they mean. Nothing is started, opened or asked for over a network.
func Check(c config.Config) error {
	if err := checkOwner(places(c)...); err != nil {
		return err
	}
	for _, entry := range c.AgentList() {
		if _, err := rulesOf(entry, c); err != nil {
			return err
		}
	}
	if _, err := bootstrap(c.Admin); err != nil {
		return err
	}
	if err := backup.Outside(trees(c), backupDir(c)); err != nil {
		return fmt.Errorf("backup.dir: %w", err)
	}
	for _, p := range places(c) {
		if err := isolationOptions(c).Check(p.workspace()); err != nil {
			return err
		}
	}
	models := c.LLM
	models.Discover = false // that a server runs on this machine is nothing that settings say
	_, err := chooseModel(context.Background(), models, nil)
	return err
}

// trusted are the parts of a home that say what Corebot does and whom it trusts. The settings and the files of secrets
// are held to the same rules where they are read. Every prompt takes the pages of the workspace for the operator's
// word.
func trusted(p place) []string {
	all := []string{p.home, MCPFile(p.home), DataDir(p.home), filepath.Join(p.home, "events"), p.dir(), p.mcpFile()}
	for _, name := range slices.Concat([]string{""}, workspace.Protected(), workspace.Pages()) {
		all = append(all, filepath.Join(p.workspace(), name))
	}
	return all
}

// checkOwner refuses a home that others can change. It passes over missing paths, because Corebot makes them closed to
// others. It also passes over paths that it cannot look at: these fail where they are used.
func checkOwner(all ...place) error {
	for _, p := range all {
		for _, path := range trusted(p) {
			if err := owned.Check(path); errors.Is(err, owned.ErrNotOurs) {
				return fmt.Errorf("the home: %w", err)
			}
		}
	}
	return nil
}
