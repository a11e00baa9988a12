package observability_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestWhoHasClosedHisSideStillReadsTheStatus(t *testing.T) {
	o := options()
	o.Status = func(ctx context.Context) (any, error) {
		select {
		case <-ctx.Done(): // as it is once net/http has seen the end of the connection
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
			return map[string]int{"chats": 3}, nil
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(serve(t, o), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // of a test
	if _, err := io.WriteString(c, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), `"chats": 3`) {
		t.Errorf("got %q, %v", answer, err)
	}
}
