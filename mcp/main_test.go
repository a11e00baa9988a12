package mcp_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// serverVariable makes the test's own program a server, of the kind that it names.
const serverVariable = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverVariable); kind != "" {
		serve, ok := programs()[kind]
		if !ok {
			fmt.Fprintln(os.Stderr, "there is no server", kind)
			os.Exit(2)
		}
		serve(newPeer())
		os.Exit(0)
	}
	// Parallel tests wait for a server's seconds to pass: more of them at once than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// peer is the other side of a connection over standard input and output, with nothing between it and the bytes.
type peer struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out *bufio.Writer
}

func newPeer() *peer {
	return &peer{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriterSize(os.Stdout, 1<<20)}
}

// said is a message of Corebot.
type said struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// next is the next message; false at the end.
func (p *peer) next() (m said, ok bool) {
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		return m, false
	}
	return m, json.Unmarshal(line, &m) == nil
}

func (p *peer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
	_ = p.out.Flush()
}

func (p *peer) result(id json.RawMessage, format string, args ...any) {
	p.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, fmt.Sprintf(format, args...))
}

const (
	helloResult = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},` +
		`"serverInfo":{"name":"test","version":"1"}}`
	doTool = `{"name":"do","description":"Do it.","inputSchema":{"type":"object",` +
		`"properties":{"x":{"type":"string"}}}}`
)

// usual answers a message as a decent server with the tools does; every call says what it was called with.
func (p *peer) usual(m said, tools ...string) {
	switch m.Method {
	case "initialize":
		p.result(m.ID, helloResult)
	case "ping":
		p.result(m.ID, `{}`)
	case "tools/list":
		p.result(m.ID, `{"tools":[%s]}`, strings.Join(tools, ","))
	case "tools/call":
		p.result(m.ID, `{"content":[{"type":"text","text":%q}]}`, m.Params.Name+" "+string(m.Params.Arguments))
	default:
		if m.ID != nil && m.Method != "" {
			p.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not found"}}`, m.ID)
		}
	}
}

// decent serves until the end of the input; special takes the messages that it wants first.
func (p *peer) decent(special func(m said) bool, tools ...string) {
	if len(tools) == 0 {
		tools = []string{doTool}
	}
	for {
		m, ok := p.next()
		if !ok {
			return
		}
		if special == nil || !special(m) {
			p.usual(m, tools...)
		}
	}
}
