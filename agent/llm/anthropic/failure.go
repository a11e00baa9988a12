package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/corebot/corebot/agent/llm/exchange"
)

// apiError is an error as the API writes it, in a body or as an event.
type apiError struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// streamError is an error that came as an event.
type streamError struct{ apiError }

func (e *streamError) Error() string { return e.apiError.Error.Type + ": " + e.apiError.Error.Message }

// statusOf finds what the provider said was wrong, by HTTP or inside an answer that began well; a zero status if it
// said nothing.
func statusOf(err error) exchange.Status {
	if e := (*sdk.Error)(nil); errors.As(err, &e) {
		return readStatus(e.StatusCode, bodyOf(err))
	}
	if e := (*streamError)(nil); errors.As(err, &e) {
		return exchange.Status{
			Code: statusOfType(e.apiError.Error.Type), Reason: e.apiError.Error.Type,
			Message: e.apiError.Error.Message,
		}
	}
	if e := (*exchange.BodyError)(nil); errors.As(err, &e) {
		if s := readStatus(0, e.Body); s.Reason != "" {
			s.Code = statusOfType(s.Reason)
			return s
		}
	}
	return exchange.Status{}
}

// bodyOf is the body of an HTTP error: the exchange has kept it, without secrets.
func bodyOf(err error) string {
	if c := (*exchange.CallError)(nil); errors.As(err, &c) {
		return c.Body
	}
	return ""
}

// readStatus takes a body that is not the API's, such as a proxy's page, for the message.
func readStatus(code int, body string) exchange.Status {
	var e apiError
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

// spell writes an event as the SDK reads it: with its name, which the data has too, and in valid UTF-8, which the SDK
// takes for granted. An error ends the stream with its type; the SDK would make text of it.
func spell(data []byte) ([]byte, error) {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	var named struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &named) != nil {
		return nil, exchange.ErrGarbled
	}
	if named.Type == "error" {
		e := &streamError{}
		if err := json.Unmarshal(data, &e.apiError); err != nil {
			return nil, exchange.ErrGarbled
		}
		return nil, e
	}
	out := make([]byte, 0, len(data)+len(named.Type)+len("event: \ndata: \n\n"))
	out = append(append(out, "event: "...), singleLine(named.Type)...)
	return append(append(append(out, "\ndata: "...), data...), "\n\n"...), nil
}

// singleLine: a name with a line break could make up an event.
func singleLine(name string) string {
	for i := range len(name) {
		if name[i] < ' ' {
			return "unknown"
		}
	}
	return name
}
