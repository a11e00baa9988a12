package llm

import "errors"

// ErrContextTooLong is in the chain of a permanent failure when the request does not fit the model's context. The same
// request fails again; a shorter one need not.
var ErrContextTooLong = errors.New("the request is too long for the model's context")
