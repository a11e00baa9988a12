// Package observability is how an operator sees Corebot: its log, and an HTTP server with /health, /ready, /metrics and
// /status.
//
// /health says that the process lives and costs nothing; /ready says whether it can accept and answer. Both need no token. The
// others need one when the listener can be reached from other machines.
//
// What is wrong although Corebot accepts and answers is collected in [Degraded]: a component reports it under a name of a bounded set.
package observability
