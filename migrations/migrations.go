// Package migrations holds the schema of Corebot's database as numbered goose files. A file that was released never
// changes; a change of the schema is a new file, with its way back.
package migrations

import "embed"

//go:generate go test -run ^TestTheWholeSchemaIsThatOfTheMigrations$ ../storage -update

// FS holds the migrations, and [Whole].
//
//go:embed *.sql whole/schema.sql
var FS embed.FS

// Whole is the file with what the migrations make of an empty database. A new home takes one transaction instead of one
// for each migration. Migrations that are newer than the file come on top, so the file may be some behind.
const Whole = "whole/schema.sql"
