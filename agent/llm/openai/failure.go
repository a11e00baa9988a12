package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/exchange"
)

// failure classifies an error; see [exchange.Endpoint.Failure].
func (m *Model) failure(err error) *corebot.Failure {
	for _, refused := range []error{api.ErrChatCompletionInvalidModel, api.ErrCompletionUnsupportedModel} {
		if errors.Is(err, refused) { // go-openai refused to send the request
			err := corebot.WithHint(
				fmt.Errorf("ask %s at %s: %w: it is not a chat model", m.endpoint.Model, m.endpoint.BaseURL,
					llm.ErrNoModel),
				"set "+m.endpoint.Setting("model")+" to a chat model")
			return &corebot.Failure{Class: corebot.Permanent, Err: &corebot.Explanation{
				Err:   err,
				Plain: corebot.FaultNotAChatModel.Say(),
			}}
		}
	}
	return m.endpoint.Failure(err, statusOf(err))
}

// statusOf finds what a provider said was wrong: by an HTTP status, or by an error inside a stream that began well. The
// status is zero if the provider said nothing.
func statusOf(err error) exchange.Status {
	if e := (*api.APIError)(nil); errors.As(err, &e) {
		return apiStatus(e)
	}
	if e := (*api.RequestError)(nil); errors.As(err, &e) {
		return exchange.Status{Code: e.HTTPStatusCode, Message: string(e.Body)}
	}
	if e := (*exchange.BodyError)(nil); errors.As(err, &e) {
		var r api.ErrorResponse
		if json.Unmarshal([]byte(e.Body), &r) == nil && r.Error != nil {
			return apiStatus(r.Error)
		}
	}
	return exchange.Status{}
}

func apiStatus(e *api.APIError) exchange.Status {
	s := exchange.Status{
		Code: e.HTTPStatusCode, Message: e.Message,
		Reason: strings.Trim(fmt.Sprintf("%v %s", e.Code, e.Type), " "),
	}
	if e.InnerError != nil {
		s.Reason += " " + e.InnerError.Code
	}
	if n, ok := e.Code.(int); s.Code == 0 && ok {
		s.Code = n // gateways put the status of the model behind them here
	}
	if s.Code < http.StatusBadRequest {
		s.Code = http.StatusBadGateway // an error without a status, in a stream that had begun: take it for transient
	}
	return s
}

// refusesStreamOptions reports whether a provider refused the field stream_options. It looks at the whole body: some
// providers name the field only in a detail that go-openai drops.
func refusesStreamOptions(err error) bool {
	s := statusOf(err)
	if s.Code != http.StatusBadRequest && s.Code != http.StatusUnprocessableEntity {
		return false
	}
	if c := (*exchange.CallError)(nil); errors.As(err, &c) {
		s.Message += c.Body
	}
	return strings.Contains(s.Message, "stream_options") || strings.Contains(s.Message, "include_usage")
}
