package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// apiVersion is the version of the API that is spoken.
const apiVersion = "2023-06-01"

// Models asks an endpoint (empty means Anthropic's own) which models it has, the newest first.
func Models(ctx context.Context, baseURL string, o exchange.Options) ([]string, error) {
	o.Model = exchange.Listing
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(baseURL, defaultBaseURL), "/"), "/v1")
	endpoint, err := exchange.New(base, o)
	if err != nil {
		return nil, err
	}
	defer endpoint.Close()
	return endpoint.Models(ctx, "/v1/models?limit=100", headerOf(o.APIKey))
}

// headerOf is what every request says of itself.
func headerOf(apiKey string) http.Header {
	header := http.Header{"Anthropic-Version": {apiVersion}}
	if apiKey != "" {
		header.Set("X-Api-Key", apiKey)
	}
	return header
}
