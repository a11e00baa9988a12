package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/corebot/corebot/agent/llm"
)

// maxServerName leaves the tools of a server some room in their names, in bytes.
const maxServerName = 32

// toolName is what Corebot calls a tool: mcp__SERVER__TOOL where that is a name that every provider takes, else its readable beginning and a hash
// of the server's own name. Of one server no two names are the same but by a collision of eight hexadecimal digits; whoever makes a set of
// tools refuses the second then. Between servers there is none: see [entryReader.servers].
func toolName(server, tool string) string {
	prefix := "mcp__" + server + "__"
	if name := prefix + tool; llm.EncodeName(name) == name && tool != "" {
		return name
	}
	const digits = 8
	sum := sha256.Sum256([]byte(tool))
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && llm.EncodeName(string(r)) == string(r) {
			return r
		}
		return '_'
	}, tool)
	room := llm.MaxProviderName - len(prefix) - 1 - digits
	return prefix + plain[:min(len(plain), room)] + "_" + hex.EncodeToString(sum[:digits/2])
}

// clip keeps the beginning of a text that somebody else made, at most n bytes and a sign that something is missing.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
