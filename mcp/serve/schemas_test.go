package serve

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// TestTheLibraryChecksSchemasByTheStandIn: Corebot leaves the library's check of arguments off. Where it is on, it
// works, and by internal/jsonschema, which costs a start nothing.
func TestTheLibraryChecksSchemasByTheStandIn(t *testing.T) {
	s := server.NewMCPServer("test", "1", server.WithInputSchemaValidation())
	s.AddTool(mcp.NewToolWithRawSchema("greet", "", json.RawMessage(`{
		"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 3}}
	}`)), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("greeted"), nil
	})
	for arguments, want := range map[string]string{
		`{"name":"Ann"}`:   "greeted",
		`{"name":"Annie"}`: "validating /properties/name: maxLength",
		`{"name":7}`:       "validating /properties/name: type",
		`{}`:               `required: missing properties: [\"name\"]`,
	} {
		answer, err := json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":`+arguments+`}}`)))
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s is answered with %s, %v; want %s", arguments, answer, err, want)
		}
	}
}
