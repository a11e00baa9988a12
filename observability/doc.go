// Package observability is how an operator sees Corebot: its log, and an HTTP server with /health, /ready, /metrics and
// /status.
//
// /health says that the process lives, and costs nothing. /ready says whether Corebot can accept and answer. Both need
// no token. The others need a token when other machines can reach the listener.
//
// [Degraded] collects the faults of a Corebot that still accepts and answers. A component reports a fault under a name
// of a bounded set.
package observability
