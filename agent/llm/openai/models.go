package openai

import (
	"cmp"
	"context"
	"net/http"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// Models asks an endpoint (empty means [DefaultBaseURL]) which models it has.
func Models(ctx context.Context, baseURL string, o Options) ([]string, error) {
	o.Model = exchange.Listing
	endpoint, err := exchange.New(cmp.Or(baseURL, DefaultBaseURL), o)
	if err != nil {
		return nil, err
	}
	defer endpoint.Close()
	header := http.Header{}
	if o.APIKey != "" {
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return endpoint.Models(ctx, "/models", header)
}
