package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/corebot/corebot"
)

// Listing takes the place of a model in the [Options] of an endpoint that is only asked which models it has. Errors
// name it: "ask for its models at …".
const Listing = "for its models"

const (
	listTime    = 10 * time.Second
	maxListBody = 4 << 20
)

// Models asks which models a provider has, at a path below the base URL. The APIs of OpenAI and of Anthropic list them
// alike. Its errors are those of [Endpoint.Failure]. A provider that has no such list gives an error of status 404.
func (e *Endpoint) Models(ctx context.Context, path string, header http.Header) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.BaseURL+path, nil)
	if err != nil {
		return nil, e.Failure(err, Status{})
	}
	req.Header = header.Clone()
	body, err := e.fetch(req, maxListBody)
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, e.Failure(&oddAnswer{wanted: "a list of models", what: "something else"}, Status{})
	}
	names := make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}

// refusesContent reports whether a status refuses the content of the request: its text, or its size.
func refusesContent(code int) bool {
	return code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge ||
		code == http.StatusUnprocessableEntity
}

// Post sends JSON to a path below the base URL and reads an answer in JSON of at most maxBytes. The call can take all
// of the endpoint's time limit. Its errors are those of [Endpoint.Failure]. If the provider refuses the content of the
// request, the error is also [corebot.ErrInvalid].
func (e *Endpoint) Post(ctx context.Context, path string, header http.Header, in, out any, maxBytes int64) error {
	ctx, cancel := e.Limit(ctx)
	defer cancel()
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode a request to %s: %w", e.BaseURL, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.BaseURL+path, bytes.NewReader(text))
	if err != nil {
		return e.Failure(err, Status{})
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	body, err := e.fetch(req, maxBytes)
	if err != nil {
		return err
	}
	if json.Unmarshal(body, out) != nil {
		return e.Failure(&oddAnswer{wanted: "the JSON that was asked for", what: "something else"}, Status{})
	}
	return nil
}

// fetch makes a request whose answer is no stream, and reads at most maxBytes of the answer.
func (e *Endpoint) fetch(req *http.Request, maxBytes int64) ([]byte, error) {
	for name, value := range e.Header {
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if ctx := req.Context(); ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, e.Failure(err, Status{})
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return nil, e.Failure(err, Status{})
	}
	if resp.StatusCode != http.StatusOK {
		failed := e.Failure(fmt.Errorf("status %d", resp.StatusCode), statusIn(resp.StatusCode, body))
		failed.RetryAfter = retryAfter(resp.Header, time.Now())
		if refusesContent(resp.StatusCode) {
			failed.Err = &about{failed.Error(), corebot.ErrInvalid}
		}
		return nil, failed
	}
	return body, nil
}

// statusIn reads the body of an error in the provider's own words. A body that is not the usual JSON is the message.
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
