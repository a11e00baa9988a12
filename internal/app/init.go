package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
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
		if err := makeHome(home, dir); err != nil {
			return made, err
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
	chosen, err := chooseModel(ctx, c.LLM, nil, nil)
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
	_, err := chooseModel(context.Background(), models, nil, nil)
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

// makeHome makes a directory of a home, or the home itself. It refuses a directory that somebody else made since
// checkOwner looked: everybody can do so in /tmp, and what Corebot writes next are secrets.
func makeHome(home, dir string) error {
	err := owned.MakeDir(dir)
	switch {
	case errors.Is(err, owned.ErrNotOurs):
		return fmt.Errorf("the home: %w", err)
	case err != nil:
		return corebot.WithHint(fmt.Errorf("make the home: %w", err), owned.Elsewhere(err, home))
	}
	return nil
}

// NetworkSetup are the answers to the questions of a network, for one account of a home.
type NetworkSetup struct {
	channels.Account
	Answers map[string]string // by the key of the setting; a secret is itself, or a reference to it
	Says    string            // as whom the platform knows the account, once it was tried

	network channels.Network
}

// NewNetworkSetup has no answers yet.
func NewNetworkSetup(n channels.Network) *NetworkSetup {
	return &NetworkSetup{Account: n.Usual(), Answers: map[string]string{}, network: n}
}

func (s *NetworkSetup) settings() config.Network {
	return config.Network{Kind: s.network.Name, Standard: s.network.Standard}
}

// Ask describes the setting of a question. Its default is what the home has today.
func (s *NetworkSetup) Ask(home string, q channels.Question) (config.Asked, error) {
	a, known := s.settings().Ask(q.Key)
	if !known {
		return a, fmt.Errorf("%s asks for %q, which is none of its settings", s.Kind, q.Key)
	}
	said, err := config.Said(home)
	if now := said.Setting(s.key(q.Key)); now != nil {
		a.Standard = now
	}
	return a, err
}

// key is where a setting of the account is in the settings file.
func (s *NetworkSetup) key(name string) string {
	return "channels." + s.Kind + "." + s.Name + "." + name
}

// fileOf is where a home keeps a secret of the account.
func (s *NetworkSetup) fileOf(key string) string { return s.Kind + "." + s.Name + "." + key }

// secrets are the answers that go into files of the home, by the name of the file.
func (s *NetworkSetup) secrets() map[string]string {
	all := map[string]string{}
	for key, answer := range s.Answers {
		if a, _ := s.settings().Ask(key); a.Secret && !config.IsReference(answer) {
			all[s.fileOf(key)] = answer
		}
	}
	return all
}

// account is what the settings of the home and the answers make together. Settings that mean nothing are an error.
func (s *NetworkSetup) account(home string) (config.Account, error) {
	changes := map[string]any{}
	for key, answer := range s.Answers {
		a, _ := s.settings().Ask(key)
		value, err := a.Value(answer)
		if err != nil {
			return config.Account{}, fmt.Errorf("%s: %w", s.key(key), err)
		}
		changes[key] = value
	}
	return config.AccountOf(home, s.settings(), s.Name, changes)
}

// Check refuses answers with which no Corebot would start.
func (s *NetworkSetup) Check(home string) error {
	_, err := s.account(home)
	return err
}

// Try has the account connect once, as `corebot channels check` does.
func (s *NetworkSetup) Try(ctx context.Context, home string) error {
	settings, err := s.account(home)
	if err != nil {
		return err
	}
	a := &App{log: zerolog.Nop()}
	of := a.accountOf(s.network, settings)
	if s.Says, err = a.check(ctx, of); err == nil {
		return nil
	}
	return corebot.WithHint(&named{err, of.Naming(err.Error())}, of.Naming(corebot.HintOf(err)))
}

// named is the error of a channel whose text names the settings of its account. A channel does not know which of
// several accounts it serves.
type named struct {
	error
	text string
}

func (e *named) Error() string { return e.text }
func (e *named) Unwrap() error { return e.error }

// changes are the settings of the account. Strangers get a code and nothing else, unless the home says otherwise. Each
// setting is put before the one that was put first.
func (s *NetworkSetup) changes(said config.File) (all []config.Change, err error) {
	if said.Setting(s.key("access")) == nil {
		all = append(all, config.Change{Key: s.key("access"), Value: "pairing"})
	}
	for _, q := range slices.Backward(s.network.Questions) {
		answer, has := s.Answers[q.Key]
		if !has {
			continue
		}
		a, _ := s.settings().Ask(q.Key)
		value, err := a.Value(answer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.key(q.Key), err)
		}
		if a.Secret && !config.IsReference(answer) {
			value = "file:" + s.fileOf(q.Key)
		}
		now := cmp.Or(said.Setting(s.key(q.Key)), a.Standard)
		if fmt.Sprint(now) != fmt.Sprint(value) {
			all = append(all, config.Change{Key: s.key(q.Key), Value: value})
		}
	}
	return all, nil
}

// Pairs says whether a stranger on the account gets a code, with which an operator lets him in.
func Pairs(c config.Config, of channels.Account) bool {
	return slices.ContainsFunc(c.Accounts.List(), func(a config.Account) bool {
		return a.Kind == of.Kind && a.Name == of.Name && a.Common.Rule == "pairing"
	})
}

// keep writes the secrets of the answers into files that nobody else can read.
func (s Setup) keep(home string) (files []string, err error) {
	all := map[string]string{}
	if s.Key != "" {
		all[keyFile(s.Provider)] = s.Key
	}
	for _, n := range s.Networks {
		maps.Copy(all, n.secrets())
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := filepath.Join(home, name)
		if err := config.WriteSecret(path, all[name]); err != nil {
			return files, err
		}
		files = append(files, path)
	}
	return files, nil
}
