package storage

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/migrations"
)

var update = flag.Bool("update", false, "write migrations/whole/schema.sql")

// onlySteps are the migrations without what makes a new database at once.
func onlySteps(t *testing.T) fstest.MapFS {
	t.Helper()
	steps := fstest.MapFS{}
	names, err := fs.Glob(migrations.FS, "*.sql")
	must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		must(t, err)
		steps[name] = &fstest.MapFile{Data: text}
	}
	return steps
}

// newFrom is a new database.
func newFrom(t *testing.T, files fs.FS) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrate(t.Context(), path, files, zerolog.Nop()))
	return path
}

func TestTheWholeSchemaIsThatOfTheMigrations(t *testing.T) {
	path := newFrom(t, onlySteps(t))
	if *update {
		file := filepath.Join("..", "migrations", filepath.FromSlash(migrations.Whole))
		must(t, os.WriteFile(file, []byte(wholeText(t, path)), 0o600))
	}
	want, got := contents(t, path), contents(t, newFrom(t, migrations.FS))
	if !slices.Equal(got, want) {
		t.Errorf("a new database is\n%s\nand by its migrations it is\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// A new home does not wait for a file that is some migrations behind.
func TestMigrationsComeOnTopOfTheWholeSchema(t *testing.T) {
	files := later(t, "CREATE TABLE later (x INTEGER) STRICT;")
	steps := newFrom(t, files)
	text, err := fs.ReadFile(migrations.FS, migrations.Whole)
	must(t, err)
	files[migrations.Whole] = &fstest.MapFile{Data: text}
	if got, want := contents(t, newFrom(t, files)), contents(t, steps); !slices.Equal(got, want) {
		t.Errorf("the database is\n%s\nand by its migrations it is\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// A number that comes later, and lies between those of the file, is not left out.
func TestAMigrationBetweenThoseOfTheWholeSchemaIsNotLeftOut(t *testing.T) {
	files := later(t, "CREATE TABLE later (x INTEGER) STRICT;")
	files["0024_later.sql"] = files["9999_later.sql"] // a number that was never used
	delete(files, "9999_later.sql")
	text, err := fs.ReadFile(migrations.FS, migrations.Whole)
	must(t, err)
	files[migrations.Whole] = &fstest.MapFile{Data: text}
	if !slices.Contains(tables(t, newFrom(t, files)), "later") {
		t.Error("the migration was left out")
	}
}

// tables are those that a statement can fill: SQLite fills the others by itself.
func tables(t *testing.T, path string) []string {
	t.Helper()
	return sideQuery(t, path, `SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'
		AND name NOT IN ('sqlite_schema', 'sqlite_sequence') ORDER BY name`)
}

// momentOf is what stands in a column with the time at which the database was made.
func momentOf(table, column string) (statement string, ok bool) {
	switch table + "." + column {
	case "goose_db_version.tstamp":
		return "CURRENT_TIMESTAMP", true
	case "store.created_at":
		return "unixepoch() * 1000", true
	}
	return "", false
}

// rows are those of a table as literals of SQL. Each column with the time of making has the expression of that time.
func rows(t *testing.T, ask asker, table string) []string {
	t.Helper()
	var values []string
	columns := ask(`SELECT name FROM pragma_table_info(?) ORDER BY cid`, table)
	for _, column := range columns {
		if statement, ok := momentOf(table, column); ok {
			values = append(values, fmt.Sprintf("'%s'", statement))
		} else {
			values = append(values, fmt.Sprintf("quote(%q)", column))
		}
	}
	return ask(fmt.Sprintf(`SELECT %s FROM %q ORDER BY %q`, strings.Join(values, " || ', ' || "), table,
		columns[0]))
}

// contents is all that there is in a new database, but for the time of its making.
func contents(t *testing.T, path string) []string {
	t.Helper()
	all := schema(t, path)
	names := append(tables(t, path), "sqlite_sequence")
	sideQueries(t, path, func(ask asker) {
		for _, table := range names {
			for _, row := range rows(t, ask, table) {
				all = append(all, table+": "+row)
			}
		}
	})
	return all
}

// wholeText are the statements that make the database at once.
func wholeText(t *testing.T, path string) string {
	t.Helper()
	var b strings.Builder
	names, err := fs.Glob(migrations.FS, "*.sql")
	must(t, err)
	for _, name := range names {
		b.WriteString(hasLine(name))
	}
	for _, statement := range sideQuery(t, path, `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL
		AND name NOT LIKE 'sqlite_%' AND name NOT IN (SELECT name FROM pragma_table_list WHERE type = 'shadow')
		ORDER BY rowid`) {
		fmt.Fprintf(&b, "%s;\n", statement)
	}
	for _, table := range append(tables(t, path), "sqlite_sequence") {
		if table == "sqlite_sequence" {
			b.WriteString("DELETE FROM sqlite_sequence;\n")
		}
		var all []string
		sideQueries(t, path, func(ask asker) { all = rows(t, ask, table) })
		for _, row := range all {
			fmt.Fprintf(&b, "INSERT INTO %s VALUES (%s);\n", table, row)
		}
	}
	return b.String()
}
