package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
)

// SearXNG is a server of that name, on anybody's machine.
type SearXNG struct {
	endpoint string
	client   *egress.Client
}

// NewSearXNG asks the server at an address. The operator named it, so it may be a private one: NewSearXNG makes a
// client that goes to any address behind that one name and port, and nowhere else, with the limits of o.
func NewSearXNG(address string, o egress.Options) (*SearXNG, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: the address of SearXNG: want one such as http://127.0.0.1:8080", corebot.ErrInvalid)
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
	if err != nil {
		return nil, fmt.Errorf("%w: the address of SearXNG has the scheme %q: want http or https", corebot.ErrInvalid,
			u.Scheme)
	}
	client, err := egress.New(egress.Targets{
		Domains: []string{u.Hostname()}, Ports: []int{port},
		Private: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	}, withoutRedirects(o))
	if err != nil {
		return nil, err
	}
	return &SearXNG{endpoint: strings.TrimSuffix(u.String(), "/") + "/search", client: client}, nil
}

// Search implements [SearchEngine].
func (s *SearXNG) Search(ctx context.Context, query string, count int) ([]SearchResult, error) {
	answer, err := s.client.Get(ctx, egress.Request{
		URL:    s.endpoint + "?" + url.Values{"q": {query}, "format": {"json"}}.Encode(),
		Header: http.Header{"Accept": {"application/json"}},
	})
	if err != nil {
		return nil, err
	}
	if err := statusError(answer, errNoJSON()); err != nil {
		return nil, err
	}
	var got struct {
		Results []struct {
			Title         string `json:"title"`
			URL           string `json:"url"`
			Content       string `json:"content"`
			PublishedDate string `json:"publishedDate"`
		} `json:"results"`
	}
	if err := asJSON(answer, &got); err != nil {
		return nil, err
	}
	var found []SearchResult
	for _, r := range got.Results[:min(len(got.Results), count)] {
		found = append(found, SearchResult{Title: r.Title, URL: r.URL, Snippet: r.Content, Age: r.PublishedDate})
	}
	return found, nil
}

// errNoJSON: SearXNG refuses formats that its settings do not name, and names no other than html by default.
func errNoJSON() error {
	return corebot.WithHint(errors.New("the SearXNG does not answer in JSON"),
		"the operator must add json to search.formats in the settings.yml of SearXNG")
}
