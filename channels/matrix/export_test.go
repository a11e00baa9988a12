package matrix

import (
	"context"
	"errors"
	"io"

	"github.com/corebot/corebot"
)

// Since is the token of a sync in a stored position of a user.
func Since(user, text string) string {
	return begin(self{id: user}, corebot.Cursor{Position: text}).since
}

// OpenMedia gets the bytes of a file by its address.
func OpenMedia(ctx context.Context, c *Channel, address string) (io.ReadCloser, error) {
	server, id, is := mediaOf(address)
	if !is {
		return nil, errors.New("the address is not of Matrix")
	}
	return c.client.open(ctx, server, id)
}
