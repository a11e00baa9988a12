package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// apiVersion is the version of the API that the list of models is asked in.
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
	header := http.Header{"Anthropic-Version": {apiVersion}}
	if o.APIKey != "" {
		header.Set("X-Api-Key", o.APIKey)
	}
	return endpoint.Models(ctx, "/v1/models?limit=100", header)
}
