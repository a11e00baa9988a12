// Package httpapi is the HTTP API for programs: what an operator can list, look at and change, as JSON over HTTP. Every
// path is an operation of the admin service of package operate, and the same that a command calls.
//
// What callers may rely on:
//   - A request carries a token as "Authorization: Bearer SECRET". A token that is unknown, expired or revoked opens
//     nothing from the next request on. The scope read looks; operate also changes; send talks as the
//     principal of the token in its chats, and reads them.
//   - A change is committed when its answer comes. Its audit event names the token.
//   - A list comes in pages: {"rows": […], "next": "…"}. The value of next is the parameter after of the next page;
//     without it nothing is left.
//   - An error is a problem as RFC 9457 has it. Its detail says what is wrong, its hint what to do.
//   - What Corebot knows to be a secret of its settings is left out of every answer.
//   - GET /api/openapi.json describes all of it as OpenAPI 3.1. It is made of the types that the handlers use.
//
// Bounds: a body has at most 1 MiB, a request takes at most 30 seconds, 1,024
// connections are open at once, and tokens hold 600 requests and sockets open that wait.
package httpapi
