package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Listing is the model of an endpoint that is only asked which models it has: errors read "ask for its models at …".
const Listing = "for its models"

const (
	listTime    = 10 * time.Second
	maxListBody = 4 << 20
)

// Models asks which models a provider has, at a path below the base URL. Both APIs list them alike. Its errors are
// those of [Endpoint.Failure]. A provider that has no such list gives an error of status 404.
func (e *Endpoint) Models(ctx context.Context, path string, header http.Header) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.BaseURL+path, nil)
	if err != nil {
		return nil, e.Failure(err, Status{})
	}
	req.Header = header.Clone()
	for name, value := range e.Header {
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, e.Failure(err, Status{})
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxListBody))
	if err != nil {
		return nil, e.Failure(err, Status{})
	}
	if resp.StatusCode != http.StatusOK {
		return nil, e.Failure(fmt.Errorf("status %d", resp.StatusCode), statusIn(resp.StatusCode, body))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, e.Failure(&oddAnswer{"something other than a list of models"}, Status{})
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

// statusIn is what a refusal says, in the provider's own words where it has some.
func statusIn(code int, body []byte) Status {
	var refusal struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &refusal) != nil || refusal.Error.Message == "" {
		return Status{Code: code, Message: string(body)}
	}
	return Status{Code: code, Message: refusal.Error.Message, Reason: refusal.Error.Type}
}
