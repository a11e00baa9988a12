package storage

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/migrations"
)

// aSchema is one with which a build of the main branch worked.
type aSchema struct {
	commit string
	newest int64
	lacks  []int64
}

func everySchema(t *testing.T) (all []aSchema) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schemas.txt"))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		s := aSchema{commit: fields[0]}
		for i, field := range fields[1:] {
			var n int64
			_, err := fmt.Sscan(field, &n)
			must(t, err)
			if i == 0 {
				s.newest = n
			} else {
				s.lacks = append(s.lacks, n)
			}
		}
		all = append(all, s)
	}
	return all
}

// steps are the migrations that a build with the schema had.
func (s aSchema) steps(t *testing.T) fstest.MapFS {
	t.Helper()
	steps := onlySteps(t)
	for name := range steps {
		var n int64
		_, err := fmt.Sscanf(name, "%d_", &n)
		must(t, err)
		if n > s.newest || slices.Contains(s.lacks, n) {
			delete(steps, name)
		}
	}
	return steps
}

// aRow has the values of a row by the names of its columns, as SQL writes them.
type aRow map[string]string

// tablesOf are the tables that Corebot writes, without those that belong to the index of the history.
func tablesOf(t *testing.T, db *sql.DB) (names, texts []string) {
	t.Helper()
	rows, err := db.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
		AND name NOT LIKE 'history\_terms%' ESCAPE '\' AND name <> 'goose_db_version' ORDER BY name`)
	must(t, err)
	defer rows.Close() //nolint:errcheck // rows.Err has the error
	for rows.Next() {
		var name, text string
		must(t, rows.Scan(&name, &text))
		names, texts = append(names, name), append(texts, text)
	}
	must(t, rows.Err())
	return names, texts
}

// columnsOf are the names and the types of a table's columns.
func columnsOf(t *testing.T, db *sql.DB, table string) (names, types []string) {
	t.Helper()
	rows, err := db.Query(`SELECT name, type FROM pragma_table_xinfo(?) ORDER BY cid`, table)
	must(t, err)
	defer rows.Close() //nolint:errcheck // rows.Err has the error
	for rows.Next() {
		var name, kind string
		must(t, rows.Scan(&name, &kind))
		names, types = append(names, name), append(types, kind)
	}
	must(t, rows.Err())
	return names, types
}

// fillEveryTable puts three rows into each table, with numbers behind the given one. The numbers are the same in all
// tables, so that rows of different tables belong together.
func fillEveryTable(t *testing.T, db *sql.DB, behind int) {
	t.Helper()
	names, texts := tablesOf(t, db)
	for i, table := range names {
		columns, types := columnsOf(t, db, table)
		single := strings.Contains(texts[i], "CHECK (id = 1)")
		if single {
			_, err := db.Exec("DELETE FROM " + table)
			must(t, err)
		}
		for n := behind + 1; n <= behind+3 && (n == behind+1 || !single); n++ {
			values := make([]any, len(columns))
			for c, column := range columns {
				values[c] = valueOf(texts[i], column, types[c], n)
			}
			_, err := db.Exec(fmt.Sprintf(`INSERT INTO %s ("%s") VALUES (?%s)`, table, strings.Join(columns, `", "`),
				strings.Repeat(", ?", len(columns)-1)), values...)
			if err != nil {
				t.Fatalf("a row of %s: %v", table, err)
			}
		}
	}
}

var oneOf = regexp.MustCompile(`CHECK \((\w+) IN \(([^)]*)\)\)`)

// valueOf is a value that a column can have in the row with a number.
func valueOf(text, column, kind string, n int) any {
	for _, check := range oneOf.FindAllStringSubmatch(text, -1) {
		if check[1] == column {
			allowed := strings.Split(check[2], ", ")
			return strings.Trim(allowed[n%len(allowed)], "'")
		}
	}
	if column == "id" && strings.Contains(text, "CHECK (id = 1)") {
		return 1
	}
	switch kind {
	case "INTEGER", "INT":
		return n
	case "BLOB":
		return fmt.Appendf(nil, "%s %d", column, n)
	default:
		return fmt.Sprintf("%s %d", column, n)
	}
}

// everyRow reads all rows of all tables.
func everyRow(t *testing.T, db *sql.DB) map[string][]aRow {
	t.Helper()
	all := map[string][]aRow{}
	names, _ := tablesOf(t, db)
	for _, table := range names {
		columns, _ := columnsOf(t, db, table)
		quoted := make([]string, len(columns))
		for i, c := range columns {
			quoted[i] = `quote("` + c + `")`
		}
		rows, err := db.Query("SELECT " + strings.Join(quoted, ", ") + " FROM " + table)
		must(t, err)
		for rows.Next() {
			values := make([]string, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			must(t, rows.Scan(into...))
			row := aRow{}
			for i, c := range columns {
				row[c] = values[i]
			}
			all[table] = append(all[table], row)
		}
		must(t, rows.Err())
		must(t, rows.Close())
	}
	return all
}

// changed are columns whose values a migration changes on purpose, with the reason.
var changed = map[string]string{
	"approvals.state":    "22: an approved call that its turn ended without is void",
	"approvals.reason":   "22: the same",
	"mcp_tools.approved": "15: it is called pinned now. Nobody knows whether an operator had approved it",
}

// missing names the rows of before that are not there after a migration.
func missing(before, after map[string][]aRow) (lost []string) {
	for table, rows := range before {
		left := slices.Clone(after[table])
		for _, row := range rows {
			at := slices.IndexFunc(left, func(now aRow) bool {
				for column, value := range row {
					if changed[table+"."+column] == "" && now[column] != value {
						return false
					}
				}
				return true
			})
			if at < 0 {
				lost = append(lost, fmt.Sprintf("%s: %v\n  there is %v", table, row, left))
				continue
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	return lost
}

// shape is what a schema has, whatever the order in which its migrations came.
func shape(t *testing.T, db *sql.DB) (all []string) {
	t.Helper()
	names, _ := tablesOf(t, db)
	for _, table := range names {
		columns, types := columnsOf(t, db, table)
		for i := range columns {
			all = append(all, table+" "+columns[i]+" "+types[i])
		}
	}
	rows, err := db.Query(`SELECT name || ' ' || COALESCE(sql, '') FROM sqlite_schema WHERE type <> 'table'`)
	must(t, err)
	defer rows.Close() //nolint:errcheck // rows.Err has the error
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		all = append(all, text)
	}
	must(t, rows.Err())
	slices.Sort(all)
	return all
}

// today is the shape of the schema of this program.
func today(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrateTo(t.Context(), path, onlySteps(t), SchemaVersion()))
	db, err := besides(path)
	must(t, err)
	defer db.Close() //nolint:errcheck // only read
	return shape(t, db)
}

// wantAll fails if rows are missing, or if the schema is not that of this program.
func wantAll(t *testing.T, db *sql.DB, before map[string][]aRow, schema []string) {
	t.Helper()
	if lost := missing(before, everyRow(t, db)); len(lost) > 0 {
		t.Errorf("lost or changed:\n%s", strings.Join(lost, "\n"))
	}
	if got := shape(t, db); !slices.Equal(got, schema) {
		t.Errorf("the schema is\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(schema, "\n"))
	}
}

// TestNoMigrationLosesARowThatAnySchemaOfTheHistoryHad makes databases of the schemas of the history, with rows in
// every table, and migrates each at once to the schema of today. The short form has every 18th and the wide one every
// sixth; with more -migrationkill.points it is each. The rows are made up. So they show that no migration loses,
// refuses or mixes up rows. The homes of [olderHomes] show what a build really wrote, and whether today's program goes
// on with it.
func TestNoMigrationLosesARowThatAnySchemaOfTheHistoryHad(t *testing.T) {
	want := today(t)
	for i, s := range everySchema(t) {
		if i%long.Or(36, 6) != 0 && migrationKills() <= 20 {
			continue
		}
		t.Run(s.commit, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), FileName)
			must(t, migrateTo(t.Context(), path, s.steps(t), s.newest))
			db, err := besides(path)
			must(t, err)
			defer db.Close() //nolint:errcheck // a test's own connection
			fillEveryTable(t, db, 0)
			before := everyRow(t, db)
			must(t, migrate(t.Context(), path, migrations.FS, zerolog.Nop()))
			wantAll(t, db, before, want)
		})
	}
}

// TestAHomeThatHadEveryBuildHasAllItsRows goes through the whole history with one database, as somebody does who runs
// each build in turn. At each schema every table gets further rows. The short form has every eighth build.
func TestAHomeThatHadEveryBuildHasAllItsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrateTo(t.Context(), path, everySchema(t)[0].steps(t), 1))
	db, err := besides(path)
	must(t, err)
	defer db.Close() //nolint:errcheck // a test's own connection
	var before map[string][]aRow
	for i, s := range long.Every(8, everySchema(t)) {
		must(t, migrateTo(t.Context(), path, s.steps(t), s.newest))
		if lost := missing(before, everyRow(t, db)); len(lost) > 0 {
			t.Fatalf("lost or changed by the build %s:\n%s", s.commit, strings.Join(lost, "\n"))
		}
		fillEveryTable(t, db, 3*i)
		before = everyRow(t, db)
	}
	must(t, migrateTo(t.Context(), path, migrations.FS, SchemaVersion()))
	wantAll(t, db, before, today(t))
}

func TestAMigrationThatComesToMainAfterLaterOnesRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s := aSchema{newest: SchemaVersion(), lacks: []int64{69}}
	must(t, migrateTo(t.Context(), path, s.steps(t), s.newest))
	must(t, migrate(t.Context(), path, migrations.FS, zerolog.Nop()))
	db, err := besides(path)
	must(t, err)
	defer db.Close() //nolint:errcheck // only read
	wantAll(t, db, nil, today(t))
}

// A database whose newest migration this program has can have one below it that this program does not know: that of a
// build from beside it.
func TestAMigrationThatIsUnknownBetweenKnownOnesIsThatOfANewerProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrateTo(t.Context(), path, onlySteps(t), SchemaVersion()))
	fewer := onlySteps(t)
	delete(fewer, "0047_think.sql")
	before := schema(t, path)
	var newer *NewerError
	if err := migrate(t.Context(), path, fewer, zerolog.Nop()); !errors.As(err, &newer) || newer.Has != 47 {
		t.Errorf("got %v", err)
	}
	if !slices.Equal(schema(t, path), before) {
		t.Error("the file was changed")
	}
}
