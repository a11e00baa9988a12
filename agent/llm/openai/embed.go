package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// Embedder turns texts into vectors at an endpoint that has OpenAI's /embeddings. Its errors are those of [Model]. A
// text that the endpoint refuses is also [corebot.ErrInvalid].
type Embedder struct {
	endpoint *exchange.Endpoint
	header   http.Header
}

// NewEmbedder prepares an embedder at baseURL and talks to nobody yet.
func NewEmbedder(baseURL string, o Options) (*Embedder, error) {
	endpoint, err := exchange.New(cmp.Or(baseURL, DefaultBaseURL), o)
	if err != nil {
		return nil, err
	}
	e := &Embedder{endpoint, http.Header{}}
	if o.APIKey != "" {
		e.header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return e, nil
}

const (
	maxEmbedding = 256 << 10 // bytes of the answer for one text: 16,000 numbers
	embedHead    = 64 << 10  // and of the rest
)

type embedRequest struct {
	Model string   `json:"model"`
	Input []string `json:"input"`
	// Some gateways send base64 to whoever names no format.
	Format string `json:"encoding_format"`
}

type embedAnswer struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Embed gives one vector for each text, and what they have cost. Tokens that the endpoint does not count are estimated.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, corebot.Usage, error) {
	var answer embedAnswer
	request := embedRequest{e.endpoint.Model, texts, "float"}
	most := int64(embedHead + maxEmbedding*len(texts))
	if err := e.endpoint.Post(ctx, "/embeddings", e.header, request, &answer, most); err != nil {
		return nil, corebot.Usage{}, err
	}
	used := corebot.Usage{InputTokens: cmp.Or(answer.Usage.Prompt, answer.Usage.Total)}
	if used.InputTokens <= 0 {
		used.InputTokens = 0
		for _, text := range texts {
			used.InputTokens += int64(llm.Estimate{}.Count(text))
		}
		used.Estimated, used.EstimatedTokens = true, used.InputTokens
	}
	vectors := make([][]float32, len(texts))
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= len(texts) || vectors[d.Index] != nil || len(d.Embedding) == 0 {
			return nil, used, e.odd(fmt.Errorf("vector %d of %d is missing, empty or there twice", d.Index, len(texts)))
		}
		vectors[d.Index] = d.Embedding
	}
	if len(answer.Data) != len(texts) {
		return nil, used, e.odd(fmt.Errorf("%d vectors came for %d texts", len(answer.Data), len(texts)))
	}
	return vectors, used, nil
}

// odd is an answer that is none.
func (e *Embedder) odd(err error) error {
	return &corebot.Failure{Class: corebot.Permanent, Err: corebot.WithHint(
		errors.New("ask "+e.endpoint.Model+" at "+e.endpoint.BaseURL+" for vectors: "+err.Error()),
		"does this address speak OpenAI's /embeddings? check "+e.endpoint.Setting("base_url"))}
}

// Close drops idle connections. Calls that run are not disturbed.
func (e *Embedder) Close() { e.endpoint.Close() }
