package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
)

const braveEndpoint = "https://api.search.brave.com/res/v1/web/search"

// Brave is the Brave Search API.
type Brave struct {
	endpoint string
	key      string
	client   *egress.Client
}

// NewBrave asks Brave with a key. It makes a client that goes to Brave only, with the limits of o.
func NewBrave(key string, o egress.Options) (*Brave, error) {
	if key == "" {
		return nil, fmt.Errorf("%w: Brave Search wants a key", corebot.ErrInvalid)
	}
	client, err := egress.New(egress.Targets{Domains: []string{"api.search.brave.com"}, Ports: []int{443}},
		withoutRedirects(o))
	if err != nil {
		return nil, err
	}
	return &Brave{endpoint: braveEndpoint, key: key, client: client}, nil
}

// Search implements [SearchEngine].
func (b *Brave) Search(ctx context.Context, query string, count int) ([]SearchResult, error) {
	values := url.Values{"q": {query}, "count": {strconv.Itoa(count)}, "text_decorations": {"false"}}
	answer, err := b.client.Get(ctx, egress.Request{
		URL: b.endpoint + "?" + values.Encode(), Header: http.Header{
			"Accept":               {"application/json"},
			"X-Subscription-Token": {b.key},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := statusError(answer, errBraveKey()); err != nil {
		return nil, err
	}
	var got struct {
		Web struct {
			Results []struct {
				Title       string `json:"title"`
				URL         string `json:"url"`
				Description string `json:"description"`
				Age         string `json:"age"`
				PageAge     string `json:"page_age"`
			} `json:"results"`
		} `json:"web"`
	}
	if err := asJSON(answer, &got); err != nil {
		return nil, err
	}
	var found []SearchResult
	for _, r := range got.Web.Results {
		found = append(found, SearchResult{
			Title: r.Title, URL: r.URL, Snippet: r.Description,
			Age: cmp.Or(r.Age, r.PageAge),
		})
	}
	return found, nil
}

func errBraveKey() error {
	return corebot.WithHint(errors.New("Brave does not take the key"), //nolint:staticcheck // a name
		"the operator must set tools.web.brave_key to a valid one")
}

// withoutRedirects keeps the address of a query, and what was sent with it, where the operator sent it.
func withoutRedirects(o egress.Options) egress.Options {
	o.Redirects = 0
	return o
}
