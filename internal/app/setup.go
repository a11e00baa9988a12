package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/anthropic"
	"github.com/corebot/corebot/agent/llm/exchange"
	"github.com/corebot/corebot/agent/llm/offline"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/policy"
)

// Kinds of providers that a home can be set up with.
const (
	ProviderOpenAI    = "openai"
	ProviderAnthropic = "anthropic"
	ProviderOffline   = "offline"
)

// Setup are the answers with which a home is set up.
type Setup struct {
	Provider string // one of the kinds; empty: the settings of the model stay as they are
	BaseURL  string // empty: the maker's own address
	Key      string // the key itself, which goes into a file of its own
	KeyRef   string // instead of Key: file:PATH or env:NAME
	Model    string
	Allow    string // one of [Levels]; empty: what it may do stays as it is
	Dir      string // where it works, for a level that asks for a directory
	Webhook  bool
	Networks []*NetworkSetup // accounts of chat networks
}

// Level is how much Corebot may do for admins.
type Level struct {
	Name, Text string
	NeedsDir   bool
	// what the settings are at this level; [levelKeys] has the others
	settings map[string]any
}

// levelKeys are the settings that the levels are made of, with their values where a level does not have them. A
// person who chooses a smaller level than before means it.
var levelKeys = []config.Change{
	{Key: "tools.roots", Value: []any{}},
	{Key: "tools.shell.mode", Value: config.ShellOff},
	{Key: "approvals.mode", Value: string(policy.ApproveTainted)},
}

// Levels are what an operator can choose, the most careful first.
func Levels() []Level {
	return []Level{
		{
			Name: "talk", Text: "talk, search the web, keep notes in its own workspace",
		},
		{
			Name: "work", Text: "also work in a directory of yours, with programs in a sandbox", NeedsDir: true,
			settings: map[string]any{"tools.roots": nil, "tools.shell.mode": config.ShellSandbox},
		},
		{
			Name: "ask", Text: "the same as talk, and every privileged call waits for your approval",
			settings: map[string]any{"approvals.mode": string(policy.ApproveAlways)},
		},
	}
}

// changes are the settings that make a home one of the level. A setting that the file does not have, and that has the
// value of the level anyway, is left out. The directory is added to those that are open.
func (l Level) changes(said config.File, dir string) (all []config.Change) {
	for _, c := range levelKeys {
		value, has := l.settings[c.Key]
		switch {
		case has && c.Key == "tools.roots":
			c.Value = withRoot(said.Setting(c.Key), dir)
		case has:
			c.Value = value
		case said.Setting(c.Key) == nil:
			continue
		}
		all = append(all, c)
	}
	return all
}

// withRoot opens a directory for writing beside those that are open.
func withRoot(before any, dir string) []any {
	list, _ := before.([]any)
	others := slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		other, ok := v.(map[string]any)
		return ok && other["path"] == dir
	})
	return append(others, map[string]any{"path": dir, "mode": config.RootWrite})
}

// WorkDir is the directory that a person means, as the settings name it. A directory with which no Corebot would start
// is refused.
func WorkDir(c config.Config, text string) (string, error) {
	if text == "" {
		return "", corebot.WithHint(errors.New("no directory is named"), "write one, such as ~/project")
	}
	user, err := os.UserHomeDir()
	if rest, tilde := strings.CutPrefix(text, "~"); tilde && err == nil && (rest == "" || rest[0] == '/') {
		text = user + rest
	}
	dir, err := filepath.Abs(text)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", text, err)
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	others := slices.DeleteFunc(c.Tools.Roots.List(), func(r config.OpenRoot) bool { return r.Path == dir })
	c.Tools.Roots = config.NewEntries(append(others, config.OpenRoot{Path: dir, Mode: config.RootWrite})...)
	c.Tools.Shell.Mode = config.ShellSandbox
	_, err = openRoots(c)
	return dir, err
}

// keyFile is where the key of a kind of provider is kept in a home.
func keyFile(provider string) string { return provider + ".key" }

// FoundServer is a model server on this machine.
func FoundServer(ctx context.Context) (server, baseURL, model string, ok bool) {
	f, ok := openai.Discover(ctx, nil)
	return f.Server, f.BaseURL, f.Model, ok
}

// Writable says whether a home can be made or changed. Nothing is made yet.
func Writable(home string) error {
	for dir := home; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)) && dir != filepath.Dir(dir):
			continue
		case err != nil:
			return fmt.Errorf("the home: %w", err)
		case !info.IsDir():
			err = fmt.Errorf("the home %s cannot be made: %s is not a directory", home, dir)
		case unix.Access(dir, unix.W_OK) != nil:
			err = fmt.Errorf("the home %s cannot be written: no rights in %s", home, dir)
		}
		if err != nil {
			return corebot.WithHint(err, "choose another with --home or COREBOT_HOME")
		}
		return nil
	}
}

// reveal gives the key that the answers name.
func (s Setup) reveal(home string) (string, error) {
	if s.KeyRef == "" {
		return s.Key, nil
	}
	key, err := config.Reveal(home, s.KeyRef)
	if err != nil {
		return "", fmt.Errorf("the key of the provider: %w", err)
	}
	return key, nil
}

// Models asks the provider of the answers which models it has.
func (s Setup) Models(ctx context.Context, home string) (names []string, err error) {
	key, err := s.reveal(home)
	if err != nil {
		return nil, err
	}
	if s.Provider == ProviderAnthropic {
		names, err = anthropic.Models(ctx, s.BaseURL, exchange.Options{APIKey: key})
	} else {
		names, err = openai.Models(ctx, s.BaseURL, openai.Options{APIKey: key})
	}
	return names, hintAtAnswer(err)
}

// hintAtAnswer says which answer to look at again. The settings that errors of a model name are not written yet.
func hintAtAnswer(err error) error {
	for _, known := range []struct {
		err  error
		hint string
	}{
		{llm.ErrUnauthorized, "is the key whole, and of this provider?"},
		{llm.ErrUnreachable, "is the address right, and can this machine reach it?"},
		{llm.ErrNoModel, "is the name of the model right, and the address?"},
	} {
		if errors.Is(err, known.err) {
			return corebot.WithHint(err, known.hint)
		}
	}
	return err
}

// Try has the model of the answers say a word, as a turn would.
func (s Setup) Try(ctx context.Context, home string) error {
	key, err := s.reveal(home)
	if err != nil {
		return err
	}
	o := exchange.Options{Model: s.Model, APIKey: key}
	var m llm.Model
	if s.Provider == ProviderAnthropic {
		m, err = anthropic.New(s.BaseURL, anthropic.Options{Options: o})
	} else {
		m, err = openai.New(s.BaseURL, o)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	_, err = m.Complete(ctx, llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "Say ok."}}, MaxOutputTokens: 16,
	}, nil)
	return hintAtAnswer(err)
}

// Plan is the settings file as the answers want it. Nothing is written yet.
func (s Setup) Plan(home string) (config.Edit, error) {
	changes, err := s.changes(home)
	if err != nil || len(changes) == 0 {
		return config.Edit{}, err
	}
	return config.PlanEdit(home, fmt.Sprintf(starter, "# ", "# ", "# "), changes)
}

func (s Setup) changes(home string) (all []config.Change, err error) {
	said, err := config.Said(home)
	if err != nil {
		return nil, err
	}
	all = s.modelChanges(said)
	if s.Allow != "" {
		levels := Levels()
		at := slices.IndexFunc(levels, func(l Level) bool { return l.Name == s.Allow })
		if at < 0 {
			return nil, fmt.Errorf("%w: there is no %q to allow", corebot.ErrInvalid, s.Allow)
		}
		all = append(all, levels[at].changes(said, s.Dir)...)
	}
	for _, n := range s.Networks {
		changes, err := n.changes(said)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	return all, nil
}

// modelChanges are the settings of the model. A home with a list of providers gets the new one at its beginning.
func (s Setup) modelChanges(said config.File) []config.Change {
	if s.Provider == "" {
		return nil
	}
	offline, before := said.Setting("llm.offline"), said.Setting("llm.providers")
	if s.Provider == ProviderOffline {
		return []config.Change{{Key: "llm.offline", Value: true}}
	}
	var all []config.Change
	if offline != nil {
		all = append(all, config.Change{Key: "llm.offline", Value: false})
	}
	ref := s.KeyRef
	if s.Key != "" {
		ref = "file:" + keyFile(s.Provider)
	}
	list, isList := before.([]any)
	if s.Provider == ProviderOpenAI && !isList {
		for _, c := range []config.Change{
			{Key: "llm.model", Value: s.Model}, {Key: "llm.api_key", Value: ref}, {
				Key:   "llm.base_url",
				Value: s.BaseURL,
			},
		} {
			if c.Value != "" || said.Setting(c.Key) != nil {
				all = append(all, c)
			}
		}
		return all
	}
	entry := map[string]any{"name": s.Provider, "kind": s.Provider, "models": []any{s.Model}}
	for key, value := range map[string]string{"base_url": s.BaseURL, "api_key": ref} {
		if value != "" {
			entry[key] = value
		}
	}
	others := slices.DeleteFunc(slices.Clone(list), func(v any) bool {
		other, ok := v.(map[string]any)
		return ok && other["name"] == s.Provider
	})
	return append(all, config.Change{Key: "llm.providers", Value: append([]any{entry}, others...)})
}

// Apply makes the home and writes what was planned. The secrets come first, so that the settings never name a file that
// is not there.
func (s Setup) Apply(home string, e config.Edit) (made Made, err error) {
	if err := checkOwner(place{home, corebot.DefaultAgent}); err != nil {
		return made, err
	}
	if err := makeHome(home, home); err != nil {
		return made, err
	}
	if made.Files, err = s.keep(home); err != nil {
		return made, err
	}
	if e.Changed() {
		if err := e.Apply(); err != nil {
			return made, err
		}
		if e.Before == "" {
			made.Files = append(made.Files, e.Path)
		} else {
			made.Changed = append(made.Changed, e.Path)
		}
	}
	rest, err := Init(home, s.Webhook)
	made.Files = append(made.Files, rest.Files...)
	for _, path := range rest.Changed {
		if !slices.Contains(made.Files, path) && !slices.Contains(made.Changed, path) {
			made.Changed = append(made.Changed, path)
		}
	}
	return made, err
}

// LeadingModel is the model to propose of those that a provider lists: the one that answers today if it is among them,
// else the first that chats.
func LeadingModel(provider string, names []string, now string) string {
	if slices.Contains(names, now) {
		return now
	}
	chats := func(name string) bool {
		for _, other := range []string{
			"embed", "whisper", "tts", "dall-e", "moderation", "image", "audio",
			"realtime",
		} {
			if strings.Contains(strings.ToLower(name), other) {
				return false
			}
		}
		return true
	}
	if slices.Contains(names, config.DefaultModel) {
		return config.DefaultModel
	}
	if at := slices.IndexFunc(names, chats); at >= 0 {
		return names[at]
	}
	if provider == ProviderAnthropic {
		return now
	}
	return cmp.Or(now, config.DefaultModel)
}

// Overruled names the variables of the environment that win over what the answers set.
func (s Setup) Overruled(home string) (names []string, err error) {
	var keys []string
	switch s.Provider {
	case "":
	case ProviderOffline:
		keys = append(keys, "llm.offline")
	case ProviderOpenAI:
		keys = append(keys, "llm.offline", "llm.providers", "llm.api_key", "llm.base_url", "llm.model")
	default:
		keys = append(keys, "llm.offline", "llm.providers")
	}
	if s.Allow != "" {
		for _, c := range levelKeys {
			keys = append(keys, c.Key)
		}
	}
	said, err := config.Said(home)
	if err != nil {
		return nil, err
	}
	e, err := ExplainConfig(home)
	for _, v := range e.Values {
		same := fmt.Sprint(v.Value) == fmt.Sprint(cmp.Or(said.Setting(v.Key), any(false))) || s.KeyRef == "env:"+v.Where
		if v.From == config.FromEnvironment && slices.Contains(keys, v.Key) && !same {
			names = append(names, v.Where)
		}
	}
	return names, err
}

// SandboxWorks says why programs cannot run in a sandbox on this machine, if the settings want them to.
func SandboxWorks(ctx context.Context, c config.Config) error {
	if c.Tools.Shell.Runs() != config.ShellSandbox {
		return nil
	}
	runner, err := openRunner(c, place{c.Home, corebot.DefaultAgent})
	if err != nil {
		return err
	}
	return errors.Join(runner.CanSandbox(ctx), runner.Close())
}

// NeedsDir says whether a level asks for a directory.
func NeedsDir(level string) bool {
	return slices.ContainsFunc(Levels(), func(l Level) bool { return l.Name == level && l.NeedsDir })
}

// Offer is what a provider of the settings says of its models.
type Offer struct {
	Provider   string   `json:"provider"`
	Endpoint   string   `json:"endpoint,omitempty"` // its host; empty: built in
	Configured []string `json:"configured"`         // as the settings have them
	Offers     []string `json:"offers"`             // as the provider lists them
	Error      string   `json:"error,omitempty"`    // why it could not be asked
}

// offerTime bounds how long one provider is asked for its models.
const offerTime = 5 * time.Second

// ListModels asks all providers of the settings at once which models they have. No model is asked.
func ListModels(ctx context.Context, c config.LLM) []Offer {
	list := c.Providers.List()
	if len(list) == 0 && !c.Offline {
		if c.Discover && c.BaseURL == "" && c.APIKey.Reveal() == "" {
			if found, ok := openai.Discover(ctx, nil); ok {
				c.BaseURL, c.Model = found.BaseURL, cmp.Or(c.Model, found.Model)
			}
		}
		if c.BaseURL != "" || c.APIKey.Reveal() != "" {
			list = []config.Provider{{
				Name: config.OnlyProvider, Kind: ProviderOpenAI, BaseURL: c.BaseURL, APIKey: c.APIKey,
				Models: []string{cmp.Or(c.Model, config.DefaultModel)},
			}}
		}
	}
	if len(list) == 0 || c.Offline {
		return []Offer{{Provider: offline.Name, Configured: []string{offline.Name}, Offers: []string{}}}
	}
	all := make([]Offer, len(list))
	var asked sync.WaitGroup
	for i, p := range list {
		asked.Go(func() { all[i] = askForModels(ctx, p) })
	}
	asked.Wait()
	return all
}

func askForModels(ctx context.Context, p config.Provider) Offer {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	o := exchange.Options{APIKey: p.APIKey.Reveal(), Provider: p.Name, Header: map[string]string{}}
	for name, value := range p.Headers {
		o.Header[name] = value.Reveal()
	}
	list, host := openai.Models, hostOf(p.BaseURL)
	if p.Kind == ProviderAnthropic {
		list = anthropic.Models
		if p.BaseURL == "" {
			host = "api.anthropic.com"
		}
	}
	offer := Offer{Provider: p.Name, Endpoint: host, Configured: p.Models, Offers: []string{}}
	names, err := list(ctx, p.BaseURL, o)
	if err != nil {
		offer.Error = err.Error()
		return offer
	}
	slices.Sort(names)
	offer.Offers = slices.Compact(names)
	return offer
}
