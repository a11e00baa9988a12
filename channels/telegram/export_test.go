package telegram

import (
	"context"
	"io"
	"time"
)

// Watch has the account look after its webhook as often as that.
func (c *Channel) Watch(every time.Duration) { c.hook.watch = every }

// SecretHeader is where the platform sends the secret of a webhook.
const SecretHeader = secretHeader

// PlaceOf is the offset of a stored position, and the position as it is stored again.
func PlaceOf(s string) (offset, text string) {
	p := placeOf(s)
	return p.offset, p.String()
}

// OpenFile gets the bytes of a file by its id.
func (c *Channel) OpenFile(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.client.open(&file{ID: id})(ctx)
}
