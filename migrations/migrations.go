// Package migrations holds the schema of Corebot's database as numbered goose files. A file that was released never
// changes; a change of the schema is a new file, with its way back.
package migrations

import "embed"

// FS holds the migrations.
//
//go:embed *.sql
var FS embed.FS
