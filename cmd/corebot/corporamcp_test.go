package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp"
)

// hostileServer is the command that serves items: this test's own program under another name.
const hostileServer = "hostile-mcp-server"

const (
	toolsAtOnce  = 100 // in one list of the server's tools
	itemsPerTool = 4
)

// fromAServer has an MCP server send every item twice. Each item stands once in a listing of its tools, while an
// admin's turns are offered them, and once in the result of a call.
func (f *fort) fromAServer() {
	file := filepath.Join(f.t.TempDir(), "items.json")
	raw := make([][]byte, len(f.items))
	for i, item := range f.items {
		raw[i] = []byte(item)
	}
	program, err := exec.LookPath(hostileServer)
	if err != nil {
		f.t.Fatal(err)
	}
	servers := filepath.Join(f.home, mcp.FileName)
	before, err := os.ReadFile(servers)
	if err != nil {
		f.t.Fatal(err)
	}
	f.replace(file, mustJSON(raw))
	f.replace(servers, mustJSON(map[string]any{"mcpServers": map[string]any{"items": map[string]any{
		"command": program,
		"args":    []string{file},
	}}}))
	f.endCleanly()
	f.env = append(f.env, "COREBOT_LLM_CONTEXT_TOKENS=1000000") // a hundred tools with texts of any length
	f.startAndWait()
	f.dial()
	f.before["data/lock"] = operatorFiles(f.t, f.home)["data/lock"] // it says which process holds it

	f.offerAll()
	calls := make([]llmtest.Call, len(f.items))
	for i := range calls {
		calls[i] = llmtest.Call{ID: fmt.Sprint("m", i), Name: "mcp__items__give", Args: fmt.Sprintf(`{"n":%d}`, i)}
	}
	if results := f.makeCalls(calls); results < len(calls) {
		f.t.Errorf("%d of %d calls of the server had a result", results, len(calls))
	}
	if out := f.output("mcp", "list"); hides(out) || strings.Contains(out, "\r") ||
		!strings.Contains(out, "connected") {
		f.t.Errorf("the list of servers is %.500q", out)
	}
	f.replace(servers, string(before))
}

func (f *fort) replace(path, text string) {
	f.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// offerAll lets turns of an admin go by until the server has listed tools of all items.
func (f *fort) offerAll() {
	deadline := time.Now().Add(patience + time.Duration(len(f.items)/toolsAtOnce)*10*time.Second)
	for n := 0; !slices.Contains(f.listed(), "mcp__items__done"); n++ {
		id := fmt.Sprint("look ", n)
		if _, err := f.load.Post(f.t.Context(), load.Message{
			ID: id, ChatID: "looks", Sender: "root",
			Content: id,
		}); err != nil {
			f.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			f.t.Fatal("the server's tools are not listed to their end")
		}
		time.Sleep(300 * time.Millisecond)
	}
	f.puppet.mu.Lock()
	defer f.puppet.mu.Unlock()
	offered := 0
	for name := range f.offers {
		if strings.HasPrefix(name, "mcp__items__") {
			offered++
		}
	}
	f.t.Logf("%d tools that were made of items were offered, the others refused", offered)
	if offered < len(f.items)/itemsPerTool/4 {
		f.t.Error("most tools were refused: the test is broken")
	}
}

// listed are the names of the server's tools.
func (f *fort) listed() []string {
	f.t.Helper()
	now, err := operate.ListServers.Call(f.t.Context(), f.control, operate.ServersQuery{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range now.Rows {
		if s.Name == "items" {
			return s.Tools
		}
	}
	return nil
}

// itemServer is an MCP server that says items wherever a server says anything.
type itemServer struct {
	items []string
	list  int // which list of tools comes next
	out   *bufio.Writer
}

// serveItems is the server's whole life. Its argument is the file of items.
func serveItems() {
	var raw [][]byte
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, &raw)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := &itemServer{out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	for _, item := range raw {
		s.items = append(s.items, string(item))
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		s.answer(in.Bytes())
		if s.out.Flush() != nil {
			return
		}
	}
}

// Flush says that nobody hears it
func (s *itemServer) line(parts ...string) { _, _ = s.out.WriteString(strings.Join(parts, "") + "\n") }

func (s *itemServer) answer(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Arguments struct{ N int } }
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return
	}
	reply := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,`
	switch m.Method {
	case "initialize":
		s.line(reply,
			`"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},`+
				`"serverInfo":{"name":"items","version":"1"}}}`)
	case "ping":
		s.line(reply, `"result":{}}`)
	case "tools/list":
		s.line(reply, `"result":{"tools":[`, strings.Join(s.tools(), ","), `]}}`)
		s.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case "tools/call":
		s.chatter(m.Params.Arguments.N)
		s.line(reply, s.result(m.Params.Arguments.N), `}`)
	default:
		s.line(reply, `"error":{"code":-32601,"message":"not found"}}`)
	}
}

// chatter is what nobody has asked for: lines that are no messages, notifications, and a log.
func (s *itemServer) chatter(n int) {
	item := strings.NewReplacer("\n", " ", "\r", " ").Replace(s.items[n])
	fmt.Fprintln(os.Stderr, item)
	if n%2 == 0 {
		s.line(item)
		return
	}
	s.line(`{"jsonrpc":"2.0","method":"notifications/`, []string{"message", "progress"}[n/2%2],
		`","params":{"level":"error","progressToken":`, quoted(item), `,"message":`, quoted(item), `}}`)
}

// result is the item as a result of one kind or another, or as an error.
func (s *itemServer) result(n int) string {
	item := quoted(s.items[n])
	content := func(piece string) string { return `"result":{"content":[{` + piece + `}]}` }
	switch n % 9 {
	case 0:
		return content(`"type":"text","text":` + item)
	case 1:
		return `"result":{"isError":true,"content":[{"type":"text","text":` + item + `}]}`
	case 2:
		return `"result":{"content":[],"structuredContent":{` + item + `:[` + item + `]}}`
	case 3:
		return content(`"type":"resource","resource":{"uri":` + item + `,"mimeType":` + item + `,"text":` + item + `}`)
	case 4:
		return content(`"type":"resource_link","uri":` + item + `,"name":` + item + `,"description":` + item)
	case 5:
		return content(`"type":"image","mimeType":` + item + `,"data":"` +
			base64.StdEncoding.EncodeToString([]byte(s.items[n])) + `"`)
	case 6:
		return `"result":{"resultType":` + item + `,"content":[{"type":` + item + `,"text":` + item + `}]}`
	case 7:
		return `"error":{"code":-32000,"message":` + item + `,"data":` + item + `}`
	}
	return `"result":` + jsonOf(s.items[n])
}

// tools are the next list: tools that are made of four items each, and one that gives items. After the last of them
// another says so.
func (s *itemServer) tools() []string {
	all := []string{
		`{"name":"give","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`,
	}
	for n := s.list * toolsAtOnce * itemsPerTool; n < len(s.items) && len(all) <= toolsAtOnce; n += itemsPerTool {
		all = append(all, s.tool(n))
	}
	s.list++
	if s.list*toolsAtOnce*itemsPerTool >= len(s.items)+toolsAtOnce*itemsPerTool {
		all = append(all, `{"name":"done","inputSchema":{"type":"object"}}`)
	}
	return all
}

// tool is made of the items from one on.
func (s *itemServer) tool(n int) string {
	at := func(i int) string { return quoted(s.items[(n+i)%len(s.items)]) }
	schema := []string{
		`{"type":"object","description":` + at(2) + `,"properties":{` + at(3) + `:{"type":"string","description":` +
			at(2) + `,"enum":[` + at(3) + `]}}}`,
		`{"type":"object","required":[` + at(2) + `],"$defs":{` + at(3) +
			`:{"type":"string"}},"properties":{"x":{"pattern":` + at(2) + `,"default":` + at(3) + `}}}`,
		`{"type":"object","properties":{"x":{"const":` + jsonOf(s.items[(n+2)%len(s.items)]) + `},"y":{"$ref":` +
			at(3) + `}}}`,
		jsonOf(s.items[(n+3)%len(s.items)]),
	}[n/itemsPerTool%4]
	return `{"name":` + at(0) + `,"title":` + at(1) + `,"description":` + at(1) + `,"annotations":{"title":` + at(2) +
		`},"inputSchema":` + schema + `}`
}

// quoted is JSON in which nothing is escaped that need not be: what is no UTF-8 stays as it is.
func quoted(item string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(item) {
		switch c := item[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}
