package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/load"
)

const (
	clientsName = "mcp::client" // for whom MCP clients act
	closedChat  = "main:webhook::vault"
	closedWords = "WHAT-WAS-SAID-IN-ANOTHER-CHAT"
)

// desk makes items into messages of an MCP client, and judges what is said to them. How messages come to Corebot is the
// matter of its door.
type desk struct {
	*fort
	ask    func(message) string // sends a message, and gives the answer to it; empty if there is none
	admin  bool                 // the client is one now
	closed map[string]bool      // tools that only an admin may use
	slots  []slot
	usual  map[string]map[string]string // of each tool: arguments that get a call as far as it can come, in JSON

	ids    atomic.Int64
	mu     sync.Mutex
	called int // how many calls of tools had a result
}

// slot is a place for an item in a call of a tool: an argument, all of them, or what is said beside them.
type slot struct{ tool, name string }

const (
	allArguments = ""
	besideThem   = "_meta"
)

// message is one of a client.
type message struct {
	item, text string
	id         string // in JSON; empty: nothing is known of the answer's
	tool       string // it calls this one
	refused    bool   // the call must fail
}

// open has the desk learn what there is. It looks as an admin first: then there is a chat to be read that later is
// closed.
func (d *desk) open() {
	d.t.Helper()
	if _, err := d.load.Post(d.t.Context(), load.Message{
		ID: "vault", ChatID: "vault", Sender: "root",
		Content: closedWords,
	}); err != nil {
		d.t.Fatal(err)
	}
	d.output("admin", "grant", clientsName)
	d.admin = true
	all := d.tools()
	for deadline := time.Now().Add(patience); !strings.Contains(d.call("history_read", `{"key":"`+closedChat+`"}`),
		closedWords); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatal("an admin cannot read a chat")
		}
	}
	d.output("admin", "revoke", clientsName)
	d.admin = false
	own := d.tools()
	d.closed = map[string]bool{}
	for name, fields := range all {
		d.closed[name] = own[name] == nil
		d.slots = append(d.slots, slot{name, allArguments}, slot{name, besideThem})
		for _, field := range fields {
			d.slots = append(d.slots, slot{name, field})
		}
	}
	slices.SortFunc(d.slots, func(a, b slot) int { return strings.Compare(a.tool+" "+a.name, b.tool+" "+b.name) })
	if len(d.slots) < 20 || !d.closed["status_read"] || d.closed["message_publish"] {
		d.t.Fatalf("%d places for an item, closed: %v", len(d.slots), d.closed)
	}
	d.usual = map[string]map[string]string{
		"message_publish": {"content": `"hello"`, "chatId": `"c1"`, "waitSeconds": `0`},
		"message_replies": {"chatId": `"c1"`},
		"history_read":    {"key": `"` + closedChat + `"`}, "chat_list": {"channel": `"*"`},
		"bus_dead_letter_replay": {"id": `999999`},
	}
}

// promote makes the client an admin.
func (d *desk) promote() {
	d.output("admin", "grant", clientsName)
	d.admin = true
	d.usual["history_read"] = map[string]string{"chatId": `"c1"`}
}

// tools are the arguments of each tool that is offered.
func (d *desk) tools() map[string][]string {
	d.t.Helper()
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema struct{ Properties map[string]json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal([]byte(d.ask(d.request(`"method":"tools/list"`))), &list); err != nil {
		d.t.Fatal(err)
	}
	found := map[string][]string{}
	for _, t := range list.Result.Tools {
		found[t.Name] = append([]string{}, slices.Sorted(maps.Keys(t.InputSchema.Properties))...)
	}
	return found
}

// call has a tool be called, and gives the whole answer.
func (d *desk) call(tool, args string) string {
	m := d.request(`"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}`)
	m.tool = tool
	return d.ask(m)
}

// request is a message with an id of its own.
func (d *desk) request(rest string) message {
	id := fmt.Sprintf(`"m%d"`, d.ids.Add(1))
	return message{text: `{"jsonrpc":"2.0","id":` + id + `,` + rest + `}`, id: id}
}

// hello begins a session.
func (d *desk) hello() message {
	return d.request(
		`"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c",` +
			`"version":"1"}}`)
}

// modern is what a message of the latest protocol version says of itself.
const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// messages are an item in every place of a message, and in one of those of the tools.
func (d *desk) messages(item string, i int) []message {
	text, value := quoted(item), jsonOf(item)
	all := []message{
		d.request(`"method":` + text + `,"params":{}`),
		d.request(`"method":"ping","params":` + value),
		d.request(`"method":"tools/call","params":` + value),
		d.request(`"method":"tools/call","params":{"name":` + text + `,"arguments":` + value + `}`),
		d.request(`"method":"tools/list","params":{"cursor":` + text + `}`),
		d.request(`"method":"resources/read","params":{"uri":` + text + `}`),
		d.request(`"method":"prompts/get","params":{"name":` + text + `,"arguments":{` + text + `:` + text + `}}`),
		d.request(`"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":` + text +
			`},"argument":{"name":` + text + `,"value":` + text + `}}`),
		d.request(`"method":"initialize","params":{"protocolVersion":` + text + `,"capabilities":{` + text + `:` +
			value + `},"clientInfo":{"name":` + text + `,"version":` + text + `}}`),
		d.request(`"method":"server/discover","params":{` + strings.Replace(modern, `"c"`, text, 1) + `}`),
		d.request(`"method":"ping","params":{"_meta":{` + text + `:` + value + `}}`),
		{text: `{"jsonrpc":"2.0","id":` + value + `,"method":"ping"}`},
		{text: `{"jsonrpc":` + text + `,"id":` + text + `,"method":"ping"}`},
		{text: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + value + `,"reason":` +
			text + `}}`},
		{text: `{"jsonrpc":"2.0","id":` + value + `,"result":` + value + `}`},
		d.toolCall(d.slots[i%len(d.slots)], item, i),
	}
	if !utf8.ValidString(item) { // where every other text is taken
		all = append(all, d.toolCall(slot{"message_publish", "content"}, item, i))
	}
	for n := range all {
		all[n].item = item
	}
	if item == "" { // without a method it is taken for an answer, over HTTP
		all[0].id = ""
	}
	return all
}

// toolCall is an item in a call of a tool, in its place and often beside it too. Some say a secret with it, which must
// not come back.
func (d *desk) toolCall(at slot, item string, i int) message {
	args := maps.Clone(d.usual[at.tool])
	if args == nil {
		args = map[string]string{}
	}
	reaches := !d.admin && (args["key"] != "" || args["channel"] != "") // what is not the client's
	meta := []string{
		``, `,"_meta":{"progressToken":` + jsonOf(item) + `}`,
		`,"_meta":{"corebot/idempotencyKey":` + quoted(item) + `}`,
	}[i/len(d.slots)%3]
	whole := ""
	switch at.name {
	case allArguments:
		reaches, whole = false, jsonOf(item)
	case besideThem:
		meta = `,"_meta":{"progressToken":` + quoted(item) + `}`
	case "key", "chatId", "channel":
		delete(args, "key")
		reaches, args[at.name] = false, quoted(item)
	case "content":
		args[at.name] = quoted(item + []string{" " + d.token, ""}[i/len(d.slots)%2])
	default:
		args[at.name] = quoted(item)
	}
	if whole == "" {
		whole = object(args)
	}
	m := d.request(`"method":"tools/call","params":{"name":"` + at.tool + `","arguments":` + whole + meta + `}`)
	m.tool, m.refused = at.tool, !utf8.ValidString(whole) || reaches || !d.admin && d.closed[at.tool]
	return m
}

// object is a JSON object of what is in JSON already.
func object(of map[string]string) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fields = append(fields, `"`+name+`":`+of[name])
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// jsonOf is the item itself where it is JSON on one line, else a text.
func jsonOf(item string) string {
	if json.Valid([]byte(item)) && !strings.ContainsAny(item, "\r\n") {
		return item
	}
	return quoted(item)
}
