package app

import (
	"context"
	"fmt"
	"net/url"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/offline"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/agent/llm/tokens"
	"github.com/corebot/corebot/internal/config"
)

// defaultModel is asked for at an endpoint when nobody named a model.
const defaultModel = "gpt-4o-mini"

// choice is a model with the reason why it is the one.
type choice struct {
	model     llm.Model
	tokenizer llm.Tokenizer
	why       string
}

// chooseModel: what is configured; else a server on this machine; else the offline model.
func chooseModel(ctx context.Context, c config.LLM) (choice, error) {
	switch {
	case c.Offline:
		return offlineModel("the offline model answers, as configured"), nil
	case c.BaseURL != "" || c.APIKey.Reveal() != "":
		if c.Model == "" {
			c.Model = defaultModel
		}
		return endpoint(c, "an OpenAI-compatible endpoint answers, "+hostOf(c.BaseURL))
	case c.Discover:
		if found, ok := openai.Discover(ctx, nil); ok {
			c.BaseURL = found.BaseURL
			if c.Model == "" {
				c.Model = found.Model
			}
			return endpoint(c, found.Server+" on this machine answers")
		}
	}
	return offlineModel("no model is configured and none runs on this machine: the offline model answers"), nil
}

func endpoint(c config.LLM, why string) (choice, error) {
	tokenizer := tokens.New(c.Model)
	m, err := openai.New(c.BaseURL, openai.Options{
		Model: c.Model, APIKey: c.APIKey.Reveal(), Tokenizer: tokenizer,
		Timeout: c.Timeout, FirstByteTimeout: c.FirstByteTimeout, IdleTimeout: c.IdleTimeout,
	})
	if err != nil {
		return choice{}, fmt.Errorf("set up the model: %w", err)
	}
	return choice{m, tokenizer, why}, nil
}

// hostOf names an endpoint without what may be secret in its address.
func hostOf(baseURL string) string {
	if baseURL == "" {
		baseURL = openai.DefaultBaseURL
	}
	if u, err := url.Parse(baseURL); err == nil {
		return u.Host
	}
	return "?"
}

func offlineModel(why string) choice {
	m := offline.Model{}
	return choice{m, tokens.New(m.Name()), why}
}
