// Package operate is the admin service. Each thing that an operator can list, look at or change in a Corebot is one
// method of [Service], with a typed request and a typed result. The command line and the control socket call the same
// methods, and so do MCP clients and tools that only read.
//
// An [Operation] names a method for callers in other processes. Its [Kind] says what the method needs: a database, the
// files of a home, or a Corebot that runs. The table in [Operations] serves the control socket.
//
// What callers may rely on:
//   - A list comes in pages of at most [MaxRows] rows. A page names the cursor of the next one. Cursors are opaque:
//     only the operation that gave one can read it. Rows that come or go between two pages shift no other row. The list
//     of what settings and files name refuses a cursor whose row has gone.
//   - A result is JSON-encodable. The rows of a list, or their Row, are what --json prints.
//   - A change is committed when its method returns, with its audit event in the same commit.
//   - Errors keep their class and their hint on the way through the control socket.
//
// The package knows no SQL and no settings. It declares the stores that it needs; internal/app joins them.
package operate
