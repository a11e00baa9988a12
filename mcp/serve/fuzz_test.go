package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/mcp/serve"
)

// FuzzAnyInputIsAnsweredInMessages: whatever comes in, what goes out is messages, one a line, and the server ends with
// its input.
func FuzzAnyInputIsAnsweredInMessages(f *testing.F) {
	for _, s := range []string{
		"", "\n", "x\n", request(1, "ping", `{}`) + "\n", request(1, "initialize", `{"protocolVersion":"x"}`) + "\n" +
			request(2, "tools/list", `{}`),
		toolCall(1, "message_publish", `{"content":"x","waitSeconds":0}`),
		toolCall(1, "history_read", `{"key":"main:mcp::a"}`),
		toolCall(1, "chat_list", `{"after":"1","limit":2}`),
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"message_replies",` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"message_replies","task":{"ttl":1}}}`,
		toolCall(1, "message_replies", `{"waitSeconds":1}`), toolCall(1, "message_publish",
			`{"content":"x","waitSeconds":2}`),
	} {
		f.Add([]byte(s))
	}
	// an input may ask for a wait
	r := newRig(f, rigOptions{
		server:  serve.ServerOptions{MaxLine: 1 << 16},
		service: serve.Options{MaxWait: time.Second},
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		var out strings.Builder
		if err := r.server.ServeStdio(context.Background(), io.MultiReader(bytes.NewReader(input),
			strings.NewReader("\n")), &out); err != nil {
			t.Fatalf("%q: %v", input, err)
		}
		lines := bufio.NewScanner(strings.NewReader(out.String()))
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var m struct{ JSONRPC string }
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.JSONRPC != "2.0" {
				t.Fatalf("%q was answered with %q", input, lines.Text())
			}
		}
	})
}
