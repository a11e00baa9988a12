package llm

import (
	"errors"

	"github.com/corebot/corebot"
)

// What a failure is about, in its chain, where more is known than its class. The first three are about the request: another provider
// would hardly answer it either. The others are about the provider. Most transient failures and rate limits have none.
var (
	// ErrContextTooLong: the request does not fit the model's context. The same request fails again; a shorter one need not.
	ErrContextTooLong = errors.New("the request is too long for the model's context")
	// ErrRefused: the provider or its filter will not answer this request.
	ErrRefused = errors.New("the provider refuses to answer this request")
	// ErrBadRequest: the provider cannot make sense of the request.
	ErrBadRequest = errors.New("the provider does not accept this request")

	// ErrUnauthorized: the key is wrong, may not do this, or its account has no credit.
	ErrUnauthorized = errors.New("the provider does not serve this key")
	// ErrNoModel: there is no such model, or nothing at all, at the provider's address.
	ErrNoModel = errors.New("the provider has no such model")
	// ErrUnreachable: the provider was not reached, or fell silent.
	ErrUnreachable = errors.New("the provider does not answer")
)

// FaultOf names what became of a call, in a word for metrics: "ok", "context_too_long", "refused", "bad_request", "unauthorized",
// "no_model", "unreachable", or else the class of the failure. An error that is no failure is "cancelled".
func FaultOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, f := range [...]struct {
		err  error
		name string
	}{
		{ErrContextTooLong, "context_too_long"},
		{ErrRefused, "refused"},
		{ErrBadRequest, "bad_request"},
		{ErrUnauthorized, "unauthorized"},
		{ErrNoModel, "no_model"},
		{ErrUnreachable, "unreachable"},
	} {
		if errors.Is(err, f.err) {
			return f.name
		}
	}
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		return f.Class.String()
	}
	return corebot.Cancelled.String()
}

// IsOfRequest says whether a failure is the request's own: it would meet the next provider as well.
func IsOfRequest(err error) bool {
	return errors.Is(err, ErrContextTooLong) || errors.Is(err, ErrRefused) || errors.Is(err, ErrBadRequest)
}
