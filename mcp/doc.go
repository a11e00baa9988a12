// Package mcp connects Corebot to the MCP servers of a home's .mcp.json, and offers their tools beside Corebot's own.
//
// Guarantees:
//
//   - Each server is supervised by itself. A lost connection is made again after a backoff. Meanwhile its tools stay
//     and say what is wrong.
//   - A bad edit changes nothing. [ReadFile] reads the whole file before the manager adopts any of it. A changed server
//     is started beside the old one, and a turn keeps the tools that it began with.
//   - A server is not trusted. Lines, events, results and tool lists are bounded, and a flood ends the connection.
//     Schemas are checked before a model sees them, and arguments before a call. Results are untrusted text and taint
//     the turn.
//   - A tool that changes is noticed. The fingerprint of each tool is stored. A changed tool taints the turns that it
//     is offered to, until an operator approves it. A pinned tool is not even offered until then.
//   - A call that was cut off is unknown, unless the operator lists its tool as read-only.
//   - The end of a server is the end of its program and of all that the program started.
//
// Limits: a program is not confined; it can do what Corebot's user can do. There is no OAuth, and servers cannot ask
// the model or a person anything.
package mcp
