package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// answer is what a server said to one request, as it came: the library's types know less than the protocol allows, and one tool or one piece of
// content that they do not know would cost all the others.
type answer struct {
	result json.RawMessage
	err    *mcp.JSONRPCErrorDetails // the server refused
}

// given says whether the server said anything.
func (a *answer) given() bool { return a.err != nil || a.result != nil }

type tapKey struct{}

// withTap has the answer to the one request that is made with the context written to a. Through the library there is no other way.
func withTap(ctx context.Context, a *answer) context.Context {
	return context.WithValue(ctx, tapKey{}, a)
}

// tap notes the answer to a request.
func tap(ctx context.Context, r *transport.JSONRPCResponse) {
	if a, ok := ctx.Value(tapKey{}).(*answer); ok && r != nil {
		a.result, a.err = r.Result, r.Error
	}
}
