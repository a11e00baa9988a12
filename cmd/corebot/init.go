package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/linediff"
	"github.com/corebot/corebot/internal/nearest"
)

const initHelp = `Make the home directory: a settings file with comments, a token for the webhook, and the workspace
with its texts.

At a terminal it asks for the provider, its key and model, what Corebot may do, the webhook, and chat
networks. Enter takes the default of each question. The key, and the token of a network, are tested at
once. Each goes into a file of its own, which only you can read, and never into the settings. In a
home that has settings, the change is shown before it is written. All else in the file stays, comments
too.

With any of the flags, or without a terminal, nothing is asked. The change of a file that is there
then needs --yes, except for --webhook alone.`

// initFlags are the answers that a command line gives.
type initFlags struct {
	app.Setup
	keyFile, keyEnv string
	yes             bool
	networks        []networkFlags
}

func newInit(s *shell) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the home directory, and set up the model",
		Long:  initHelp,
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			if err := f.complete(cmd); err != nil {
				return err
			}
			return s.initialise(cmd, home, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Provider, "provider", "", "who answers: openai (or any endpoint of its API), anthropic, offline")
	flags.StringVar(&f.BaseURL, "base-url", "", "the address of the provider (default: the maker's own)")
	flags.StringVar(&f.keyFile, "key-file", "", "the file that has the key")
	flags.StringVar(&f.keyEnv, "key-env", "", "the variable that has the key")
	flags.StringVar(&f.Model, "model", "", "the model (default: one that the provider lists)")
	flags.StringVar(&f.Allow, "allow", "", "what it may do: "+levelNames())
	flags.StringVar(&f.Dir, "dir", "", "where it works, for a level that works in a directory")
	flags.BoolVar(&f.Webhook, "webhook", false, "enable the webhook in the settings file")
	for _, n := range app.Networks() {
		f.networks = append(f.networks, newNetworkFlags(flags, n))
	}
	flags.BoolVar(&f.yes, "yes", false, "change a settings file that is there, without asking")
	offer(cmd, "provider", app.ProviderOpenAI, app.ProviderAnthropic, app.ProviderOffline)
	offer(cmd, "allow", strings.Split(levelNames(), ", ")...)
	return cmd
}

// offer has a shell complete the values of a flag.
func offer(cmd *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // there is no such flag
	}
}

func levelNames() string {
	var all []string
	for _, l := range app.Levels() {
		all = append(all, l.Name)
	}
	return strings.Join(all, ", ")
}

// complete refuses answers that make no sense.
func (f *initFlags) complete(cmd *cobra.Command) error {
	switch {
	case f.Provider == "" && (f.BaseURL != "" || f.keyFile != "" || f.keyEnv != "" || f.Model != ""):
		return usage(cmd, fmt.Errorf("--base-url, --key-file, --key-env and --model need --provider"))
	case f.Provider != "" && f.Provider != app.ProviderOpenAI && f.Provider != app.ProviderAnthropic &&
		f.Provider != app.ProviderOffline:
		return usage(cmd, fmt.Errorf("--provider %q: want openai, anthropic or offline", f.Provider))
	case f.keyFile != "" && f.keyEnv != "":
		return usage(cmd, fmt.Errorf("--key-file and --key-env: want one of them"))
	case f.keyFile != "":
		path, err := filepath.Abs(f.keyFile) // a reference of the settings begins at the home
		if err != nil {
			return fmt.Errorf("look for %s: %w", f.keyFile, err)
		}
		f.KeyRef = "file:" + path
	case f.keyEnv != "":
		f.KeyRef = "env:" + f.keyEnv
	}
	for _, n := range f.networks {
		setup, err := n.answers()
		if err != nil {
			return usage(cmd, err)
		}
		if len(setup.Answers) > 0 {
			f.Networks = append(f.Networks, setup)
		}
	}
	if err := f.completeLevel(); err != nil {
		return usage(cmd, err)
	}
	return nil
}

// completeLevel refuses a level that is none, and a directory without a level that works in it.
func (f *initFlags) completeLevel() error {
	known := slices.ContainsFunc(app.Levels(), func(l app.Level) bool { return l.Name == f.Allow })
	switch needs := app.NeedsDir(f.Allow); {
	case f.Allow != "" && !known:
		return fmt.Errorf("--allow %q: want one of %s", f.Allow, levelNames())
	case needs && f.Dir == "":
		return fmt.Errorf("--allow %s needs --dir", f.Allow)
	case !needs && f.Dir != "":
		return fmt.Errorf("--dir %s opens nothing without a level that works in a directory, such as --allow work",
			f.Dir)
	}
	return nil
}

// networkFlags are the answers to the questions of one network that a command line gives.
type networkFlags struct {
	network channels.Network
	texts   map[string]*string // the answers themselves, by the key of the setting
	files   map[string]*string // of secrets: the file that has it
	envs    map[string]*string // of secrets: the variable that has it
}

// newNetworkFlags makes a flag of each question. A secret stands in no command line, where others can read it.
func newNetworkFlags(flags *pflag.FlagSet, n channels.Network) networkFlags {
	f := networkFlags{n, map[string]*string{}, map[string]*string{}, map[string]*string{}}
	asks := (config.Network{Kind: n.Name, Standard: n.Standard}).Asks()
	for _, q := range n.Questions {
		name := flagName(n, q)
		what := n.Name + ": " + strings.ToLower(q.Text[:1]) + q.Text[1:]
		if asks[q.Key].Secret {
			f.files[q.Key] = flags.String(name+"-file", "", what+", in this file")
			f.envs[q.Key] = flags.String(name+"-env", "", what+", in this variable")
			continue
		}
		f.texts[q.Key] = flags.String(name, "", what)
	}
	return f
}

func flagName(n channels.Network, q channels.Question) string {
	return n.Name + "-" + strings.NewReplacer("_", "-", ".", "-").Replace(q.Key)
}

// answers are what the command line says of the network.
func (f networkFlags) answers() (*app.NetworkSetup, error) {
	setup := app.NewNetworkSetup(f.network)
	for _, q := range f.network.Questions {
		if text, plain := f.texts[q.Key]; plain {
			if *text != "" {
				setup.Answers[q.Key] = *text
			}
			continue
		}
		file, env, name := *f.files[q.Key], *f.envs[q.Key], flagName(f.network, q)
		switch {
		case file != "" && env != "":
			return nil, fmt.Errorf("--%s-file and --%s-env: want one of them", name, name)
		case file != "":
			path, err := filepath.Abs(file) // a reference of the settings begins at the home
			if err != nil {
				return nil, fmt.Errorf("look for %s: %w", file, err)
			}
			setup.Answers[q.Key] = "file:" + path
		case env != "":
			setup.Answers[q.Key] = "env:" + env
		}
	}
	return setup, nil
}

// initialise sets a home up with the answers of the flags, or of the person at the terminal.
func (s *shell) initialise(cmd *cobra.Command, home string, f initFlags) error {
	ctx := cmd.Context()
	if err := app.Writable(home); err != nil {
		return err
	}
	a := newAsker(cmd.InOrStdin(), cmd.OutOrStdout())
	old, err := config.HasFile(home)
	if err != nil {
		return err
	}
	if f.anything() {
		a = nil
	}
	setup := f.Setup
	if a != nil {
		i := &interview{asker: a, home: home, old: old, Setup: setup}
		if i.now, err = app.LoadConfig(home); err != nil {
			return err
		}
		if err := i.run(ctx); err != nil {
			return err
		}
		setup = i.Setup
	} else if err := settle(ctx, home, &setup); err != nil {
		return err
	}
	edit, err := setup.Plan(home)
	if err != nil {
		return err
	}
	if old && edit.Changed() {
		if err := agree(cmd, a, edit, f.yes); err != nil {
			return err
		}
	}
	made, err := setup.Apply(home, edit)
	return s.tellInit(cmd, home, setup, made, err)
}

// anything says whether a flag has answered something.
func (f initFlags) anything() bool {
	return f.yes || f.Webhook || f.Provider != "" || f.Allow != "" || len(f.Networks) > 0
}

// settle tests what the flags say of the directory, of networks and the model. It picks a model where they name none.
func settle(ctx context.Context, home string, s *app.Setup) (err error) {
	if app.NeedsDir(s.Allow) {
		now, err := app.LoadConfig(home)
		if err != nil {
			return err
		}
		if s.Dir, err = app.WorkDir(now, s.Dir); err != nil {
			return fmt.Errorf("--dir: %w", err)
		}
	}
	for _, n := range s.Networks {
		if err := n.Try(ctx, home); err != nil {
			return err
		}
	}
	if s.Provider == "" || s.Provider == app.ProviderOffline {
		return nil
	}
	if s.Model == "" {
		names, err := s.Models(ctx, home)
		if err != nil {
			return err
		}
		if s.Model = app.LeadingModel(s.Provider, names, ""); s.Model == "" {
			return corebot.WithHint(fmt.Errorf("the provider lists no model"), "name it: --model NAME")
		}
	}
	err = s.Try(ctx, home)
	if errors.Is(err, llm.ErrNoModel) {
		if names, listed := s.Models(ctx, home); listed == nil && len(names) > 0 {
			like, _ := nearest.Name(s.Model, names)
			err = corebot.WithHint(err, fmt.Sprintf("did you mean %q?", like))
		}
	}
	return err
}

// agree shows the change of a settings file, and asks for it.
func agree(cmd *cobra.Command, a *asker, e config.Edit, yes bool) error {
	hunks, err := linediff.Compare([]byte(e.Before), []byte(e.After))
	if err != nil {
		return fmt.Errorf("show the change of %s: it %w", e.Path, err)
	}
	text, _ := linediff.Render(hunks, math.MaxInt) // whole: a settings file is bounded
	fmt.Fprintf(cmd.OutOrStdout(), "\nThe change of %s:\n%s\n", printable(e.Path), printable(text))
	switch {
	case yes:
		return nil
	case a == nil:
		return corebot.WithHint(fmt.Errorf("%s was not changed: nobody can be asked", e.Path), "add --yes")
	}
	goOn, err := a.yes(cmd.Context(), "Write it?", true)
	if err == nil && !goOn {
		err = errDeclined
	}
	return err
}

// tellInit says what was made, and which model answers now.
func (s *shell) tellInit(cmd *cobra.Command, home string, setup app.Setup, made app.Made, err error) error {
	t := &teller{w: cmd.OutOrStdout()}
	t.line("home   %s", home)
	for _, path := range made.Files {
		t.line("made   %s", path)
	}
	for _, path := range made.Changed {
		what := "the settings"
		if setup.Webhook {
			what = "the webhook is enabled"
		}
		t.line("set    %s: %s", path, what)
	}
	if err != nil {
		return err
	}
	c, err := app.LoadConfig(home)
	if err != nil {
		return err
	}
	name, why, err := app.FoundModel(cmd.Context(), c)
	if err != nil {
		return err
	}
	t.line("model  %s (%s)", name, why)
	if setup.Webhook {
		s.tellWebhook(cmd, t, c, made)
	}
	s.tellNetworks(cmd, t, setup)
	if overruled, err := setup.Overruled(home); err != nil {
		return err
	} else if len(overruled) > 0 {
		t.line("note   the environment wins over these settings: %s", strings.Join(overruled, ", "))
	}
	if err := app.SandboxWorks(cmd.Context(), c); err != nil && app.NeedsDir(setup.Allow) {
		t.line("note   no program runs here: %s\n       %s", err, corebot.HintOf(err))
	}
	for _, err := range app.ProgramsLack(c) {
		if app.NeedsDir(setup.Allow) {
			t.line("note   %s\n       %s", err, corebot.HintOf(err))
		}
	}
	t.line("next   %s", nextStep(c, s.home))
	if c.Console.Enabled {
		home := homeFlag(c, s.home)
		t.line("next   see it in a browser: %s serve%s, then the address of: %s console%s", calledAs(), home,
			calledAs(), home)
	}
	for _, n := range setup.Networks {
		t.line("next   %s", nextOnNetwork(c, s.home, n.Account))
	}
	return t.err
}

// tellWebhook says what --webhook has come to.
func (s *shell) tellWebhook(cmd *cobra.Command, t *teller, c config.Config, made app.Made) {
	switch {
	case !c.Webhook.Enabled:
		t.line("note   the environment keeps the webhook off: COREBOT_WEBHOOK_ENABLED")
	case len(made.Files)+len(made.Changed) == 0:
		t.line("note   the webhook was enabled before; nothing was changed")
	default:
		if _, err := s.daemon(cmd.Context(), ""); err == nil {
			t.line("note   a Corebot runs on this home: it opens the webhook when it is started again")
		}
	}
}

// tellNetworks says as whom the platforms know the accounts that were set up.
func (s *shell) tellNetworks(cmd *cobra.Command, t *teller, setup app.Setup) {
	for _, n := range setup.Networks {
		says := "not tested"
		if n.Says != "" {
			says = n.Says
		}
		t.line("joins  %s (%s)", n.Account, printable(says))
	}
	if len(setup.Networks) == 0 {
		return
	}
	if _, err := s.daemon(cmd.Context(), ""); err == nil {
		t.line("note   a Corebot runs on this home: it joins when it is started again")
	}
}

// nextOnNetwork is what somebody does to talk on a network.
func nextOnNetwork(c config.Config, named string, a channels.Account) string {
	home := homeFlag(c, named)
	next := fmt.Sprintf("on %s: %s serve%s, then write to it there", a.Kind, calledAs(), home)
	if app.Pairs(c, a) {
		next += fmt.Sprintf("; approve the code that it answers: %s pair%s approve CODE", calledAs(), home)
	}
	return next
}

// nextStep is what a newcomer can do now. A home that was named has to be named again.
func nextStep(c config.Config, named string) string {
	home := homeFlag(c, named)
	if !c.Webhook.Enabled {
		return fmt.Sprintf("talk to it: %s chat%s", calledAs(), home)
	}
	return fmt.Sprintf("run it: %s serve%s, then post to http://%s/webhook with the token of %s", calledAs(), home,
		c.Webhook.Addr, config.TokenFile)
}

// homeFlag names the home in a command, if it was named in this one.
func homeFlag(c config.Config, named string) string {
	if named == "" {
		return ""
	}
	return " --home " + shellWord(c.Home)
}

// shellWord is a text as one word of a shell.
func shellWord(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@%", r)
	}) {
		text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return printable(text)
}

// calledAs is what somebody types to call this program again. A shell finds only what is in PATH under its name, and
// `go run` removes what it has built.
func calledAs() string {
	self, err := os.Executable()
	if err != nil {
		return "corebot"
	}
	if found, err := exec.LookPath("corebot"); err == nil && sameFile(found, self) {
		return "corebot"
	}
	if strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/corebot"
	}
	return printable(self)
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	two, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, two)
}
