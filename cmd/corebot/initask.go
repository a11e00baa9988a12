package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/nearest"
)

// interview asks for all that a new home needs. It changes nothing.
type interview struct {
	*asker
	home string
	now  config.Config // as the home is set up today
	app.Setup
	names []string // the models that the provider lists
	blind bool     // the provider could not be asked
	old   bool     // the home has a settings file
}

func (i *interview) run(ctx context.Context) error {
	fmt.Fprintf(i.out, "The home is %s. Enter takes what stands in brackets.\n\n", printable(i.home))
	for _, step := range []func(context.Context) error{
		i.askProvider, i.askModel, i.askAllow, i.askWebhook, i.askNetworks,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keepModel is the answer that leaves the settings of the model as they are.
const keepModel = "keep"

// foundHere is the answer that takes the model server of this machine.
const foundHere = "found"

// keyVariables are where programs of the makers look for a key.
var keyVariables = map[string]string{
	app.ProviderOpenAI: "OPENAI_API_KEY", app.ProviderAnthropic: "ANTHROPIC_API_KEY",
}

func (i *interview) askProvider(ctx context.Context) error {
	var options []option
	server, url, model, found := app.FoundServer(ctx)
	if i.old && (i.now.LLM.BaseURL != "" || i.now.LLM.APIKey.Reveal() != "" || len(i.now.LLM.Providers.List()) > 0) {
		options = append(options, option{keepModel, "the model that the settings name today"})
	}
	if found {
		options = append(options, option{foundHere, server + " on this machine, with " + model})
	}
	for _, maker := range []string{app.ProviderOpenAI, app.ProviderAnthropic} {
		if name := keyVariables[maker]; os.Getenv(name) != "" {
			options = append(options, option{name, maker + ", with the key of this variable"})
		}
	}
	standard := ""
	if len(options) == 0 {
		standard = app.ProviderOffline
	}
	options = append(options,
		option{app.ProviderOpenAI, "OpenAI, or any endpoint that speaks its API"},
		option{app.ProviderAnthropic, "Anthropic"},
		option{app.ProviderOffline, "the built-in offline model, to look around without a key"})
	if standard == "" {
		standard = options[0].name
	}
	chosen, err := i.choose(ctx, "Which model answers?", options, standard)
	switch {
	case err != nil:
		return err
	case chosen == keepModel:
		return nil
	case chosen == foundHere:
		i.Provider, i.BaseURL, i.Model = app.ProviderOpenAI, url, model
		return nil
	}
	for maker, name := range keyVariables {
		if chosen == name {
			i.Provider, i.KeyRef = maker, "env:"+name
			return i.askKey(ctx)
		}
	}
	i.Provider = chosen
	if chosen == app.ProviderOffline {
		return nil
	}
	return i.askKey(ctx)
}

// makers are the addresses of the makers themselves.
var makers = map[string]string{
	app.ProviderOpenAI: "https://api.openai.com/v1", app.ProviderAnthropic: "https://api.anthropic.com",
}

// askKey asks for address and key, and has the provider look at the key at once.
func (i *interview) askKey(ctx context.Context) error {
	own := makers[i.Provider]
	standard := own
	if i.Provider == app.ProviderOpenAI && i.now.LLM.BaseURL != "" {
		standard = i.now.LLM.BaseURL
	}
	url, err := i.ask(ctx, "Address", standard, func(text string) error {
		if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			return fmt.Errorf("%q is no address: it begins with http:// or https://", text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	i.BaseURL = ""
	if url != own {
		i.BaseURL = url
	}
	for range maxTries {
		if i.KeyRef == "" {
			if i.Key, err = i.secret(ctx, "Key"); err != nil {
				return err
			}
		}
		i.names, err = i.Models(ctx, i.home)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case !errors.Is(err, llm.ErrUnauthorized) && !errors.Is(err, corebot.ErrInvalid):
			return i.untested(ctx, err)
		}
		i.refuse(err)
		i.KeyRef = "" // a variable has the same key at the next try
	}
	return errNoSense
}

// untested goes on without a list of models where a provider has none, or cannot be reached and the person wants it.
func (i *interview) untested(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, llm.ErrNoModel) {
		return nil
	}
	i.refuse(err)
	goOn, err := i.yes(ctx, "The key could not be tested. Keep it all the same?", false)
	if err == nil && !goOn {
		err = errDeclined
	}
	i.blind = true
	return err
}

var errDeclined = errors.New("declined: nothing was changed")

// askModel asks for the model and has it say a word.
func (i *interview) askModel(ctx context.Context) error {
	if i.Provider == "" || i.Provider == app.ProviderOffline || i.Model != "" {
		return nil
	}
	for range maxTries {
		if err := i.askName(ctx); err != nil || i.blind {
			return err
		}
		fmt.Fprintf(i.out, "Asking %s for a word ...\n", printable(i.Model))
		err := i.Try(ctx, i.home)
		switch {
		case err == nil:
			fmt.Fprintln(i.out, "It answers.")
			return nil
		case ctx.Err() != nil:
			return errInterrupted
		}
		i.refuse(err)
		if errors.Is(err, llm.ErrUnreachable) {
			return i.untested(ctx, err)
		}
		if errors.Is(err, llm.ErrUnauthorized) {
			if err := i.askKey(ctx); err != nil {
				return err
			}
		}
	}
	return errNoSense
}

// shownModels bounds the list that is shown. Any other name can be typed.
const shownModels = 12

func (i *interview) askName(ctx context.Context) (err error) {
	if n := len(i.names); n > 0 {
		among := ""
		if n > shownModels {
			among = ", among them"
		}
		fmt.Fprintf(i.out, "The provider lists %s%s:\n", count(int64(n), "model"), among)
		for _, name := range i.names[:min(n, shownModels)] {
			fmt.Fprintf(i.out, "  %s\n", printable(name))
		}
	}
	i.Model, err = i.ask(ctx, "Model", app.LeadingModel(i.Provider, i.names, i.now.LLM.Model), func(text string) error {
		switch {
		case text == "":
			return errors.New("a model has a name")
		case len(i.names) > 0 && !slices.Contains(i.names, text):
			like, _ := nearest.Name(text, i.names)
			return corebot.WithHint(fmt.Errorf("the provider does not list the model %q", text),
				fmt.Sprintf("did you mean %q?", like))
		}
		return nil
	})
	return err
}

func (i *interview) askAllow(ctx context.Context) (err error) {
	var options []option
	for _, l := range app.Levels() {
		options = append(options, option{l.Name, l.Text})
	}
	if i.old {
		options = append([]option{{keepModel, "what the settings say today"}}, options...)
	}
	chosen, err := i.choose(ctx, "What may it do for you?", options, options[0].name)
	if err != nil || chosen == keepModel {
		return err
	}
	i.Allow = chosen
	if !app.NeedsDir(chosen) {
		return nil
	}
	here, err := app.WorkDir(i.now, ".")
	if err != nil {
		here = "" // such as the directory that has the home in it
	}
	_, err = i.ask(ctx, "Directory", here, func(text string) (err error) {
		i.Dir, err = app.WorkDir(i.now, text)
		return err
	})
	return err
}

func (i *interview) askWebhook(ctx context.Context) (err error) {
	if i.now.Webhook.Enabled {
		return nil
	}
	i.Webhook, err = i.yes(ctx, "May programs send it messages over HTTP, on this machine?", false)
	return err
}

// noNetwork is the answer of somebody who wants no chat network, or no other.
const noNetwork = "none"

// askNetworks asks for accounts of chat networks, one of each network.
func (i *interview) askNetworks(ctx context.Context) error {
	left := app.Networks()
	for question := "Which chat network?"; len(left) > 0; question = "Which other chat network?" {
		options := []option{{noNetwork, "leave chat networks as they are"}}
		for _, n := range left {
			options = append(options, option{n.Name, n.About})
		}
		chosen, err := i.choose(ctx, question, options, noNetwork)
		if err != nil || chosen == noNetwork {
			return err
		}
		at := slices.IndexFunc(left, func(n channels.Network) bool { return n.Name == chosen })
		if err := i.askNetwork(ctx, left[at]); err != nil {
			return err
		}
		left = slices.Delete(left, at, at+1)
	}
	return nil
}

// errLeftOut says that a person has no answer for a network.
var errLeftOut = errors.New("no answer")

// askNetwork asks for an account and has it connect at once, until the platform knows it or the person has enough.
func (i *interview) askNetwork(ctx context.Context, n channels.Network) error {
	setup := app.NewNetworkSetup(n)
	for {
		err := i.askAccount(ctx, n, setup)
		if errors.Is(err, errLeftOut) {
			fmt.Fprintf(i.out, "%s is left out.\n", n.Name)
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(i.out, "Asking %s who it is ...\n", n.Name)
		err = setup.Try(ctx, i.home)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err == nil:
			fmt.Fprintf(i.out, "It is %s.\n", printable(setup.Says))
			i.Networks = append(i.Networks, setup)
			return nil
		}
		i.refuse(err)
		goOn, err := i.afterFailure(ctx, setup)
		if err != nil || !goOn {
			return err
		}
	}
}

// The choices of a person whose account could not connect.
const (
	onceMore = "again"
	keepIt   = "keep"
	leaveOut = "leave"
)

// afterFailure asks what to do about an account that could not connect. goOn says that the questions come again.
func (i *interview) afterFailure(ctx context.Context, setup *app.NetworkSetup) (goOn bool, err error) {
	options := []option{{onceMore, "answer once more"}, {leaveOut, "leave " + setup.Kind + " out"}}
	if setup.Check(i.home) == nil { // a Corebot starts with it
		options = append(options, option{keepIt, "keep it all the same"})
	}
	chosen, err := i.choose(ctx, "What now?", options, onceMore)
	if err == nil && chosen == keepIt {
		i.Networks = append(i.Networks, setup)
	}
	return chosen == onceMore, err
}

// askAccount asks the questions of a network. Where nothing can stand for an answer, Enter leaves the network out.
func (i *interview) askAccount(ctx context.Context, n channels.Network, setup *app.NetworkSetup) error {
	for _, q := range n.Questions {
		asked, err := setup.Ask(i.home, q)
		if err != nil {
			return err
		}
		if q.Hint != "" {
			fmt.Fprintln(i.out, q.Hint)
		}
		var text string
		if asked.Secret {
			text, err = i.secret(ctx, q.Text)
		} else {
			text, err = i.ask(ctx, q.Text, standardAnswer(asked, setup.Answers[q.Key]), func(text string) error {
				_, err := asked.Value(text)
				return err
			})
		}
		if err == nil && text == "" {
			err = errLeftOut
		}
		if err != nil {
			return err
		}
		setup.Answers[q.Key] = text
	}
	return nil
}

// standardAnswer is what Enter takes: the last answer, or what the settings say.
func standardAnswer(asked config.Asked, last string) string {
	if last != "" {
		return last
	}
	return fmt.Sprint(asked.Standard)
}
