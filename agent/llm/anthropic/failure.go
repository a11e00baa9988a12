package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// streamError is an error that came as an event.
type streamError struct{ apiError }

func (e *streamError) Error() string { return e.Type + ": " + e.Message }

// statusOf finds what the provider said was wrong, by HTTP or inside an answer that began well; a zero status if it
// said nothing.
func statusOf(err error) exchange.Status {
	if e := (*exchange.RefusedError)(nil); errors.As(err, &e) {
		return readStatus(e.Code, e.Body)
	}
	if e := (*streamError)(nil); errors.As(err, &e) {
		return exchange.Status{Code: statusOfType(e.Type), Reason: e.Type, Message: e.Message}
	}
	if e := (*exchange.BodyError)(nil); errors.As(err, &e) {
		if s := readStatus(0, e.Body); s.Reason != "" {
			s.Code = statusOfType(s.Reason)
			return s
		}
	}
	return exchange.Status{}
}

// readStatus takes a body that is not the API's, such as a proxy's page, for the message.
func readStatus(code int, body string) exchange.Status {
	var e struct {
		Error apiError `json:"error"`
	}
	if json.Unmarshal([]byte(body), &e) != nil || e.Error.Type == "" && e.Error.Message == "" {
		return exchange.Status{Code: code, Message: body}
	}
	return exchange.Status{Code: code, Reason: e.Error.Type, Message: e.Error.Message}
}

// statusOverloaded is Anthropic's own.
const statusOverloaded = 529

// statusOfType gives the status that the API documents for a type of error, for errors that come without one. A type
// that is not known is taken for a failure of the server.
func statusOfType(kind string) int {
	switch kind {
	case "invalid_request_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "billing_error":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error":
		return http.StatusTooManyRequests
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return statusOverloaded
	}
	return http.StatusInternalServerError
}
