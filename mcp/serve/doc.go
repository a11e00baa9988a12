// Package serve is Corebot as an MCP server: an editor, or another agent, reaches its chats through tools.
//
// A [Service] is the channel of MCP clients and carries out their calls. A [Server] speaks the protocol in front of it,
// on standard input and output or over streamable HTTP. They may live in different processes: the server knows the
// service as a [Backend].
//
// It promises:
//
//   - One principal. A client acts for the principal of the [Options], with the role that it has at that moment. Every
//     call passes the one call path of package tools, and its table of rules. A tool that the role may not use is not
//     offered; a call to it is denied. Every call leaves a row in the audit with the entry [corebot.EntryClient], a
//     denied call with the rule. A call that changes something, or that not everyone may make, has its decision on disk
//     before it runs.
//   - The same message. A client's message passes the front door of every channel. Its id is the idempotency key. A
//     repeated call, after a crash or a lost connection, publishes nothing and has the same reply. Other changes are
//     made once for the idempotency key of the call.
//   - Waiting is only waiting. A wait stops no turn when it ends, by its time, by a cancellation, or with its client.
//     Its answer has a durable cursor with which message.replies goes on.
//   - Results are data: bounded, marked as untrusted, without invisible characters and secrets.
//   - Bounded. Lines, bodies, requests at once, sessions, pages and texts have limits. A client that does not read
//     holds up nobody else.
//
// Limits: results are for models, so control tokens of chat templates in them are defused (package outside), and long
// texts are cut with a mark. GET /webhook/outbound and corebot why show exact replies. A call that needs an approval is
// denied: there is no turn that could wait. There are no prompts, resources or subscriptions.
package serve
