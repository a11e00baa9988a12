package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"
)

func TestTheCeilingInsertsEveryPairAndSaysHowFast(t *testing.T) {
	dir := t.TempDir()
	perSecond, err := Ceiling(context.Background(), dir, 2*ceilingBatch+7, 512)
	if err != nil || perSecond <= 0 {
		t.Fatalf("%v pairs per second, %v", perSecond, err)
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "ceiling.db"), pragmas))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	var ids, bodies, size int
	if err := db.QueryRow(`SELECT (SELECT COUNT(*) FROM ids), COUNT(*), MIN(LENGTH(body)) FROM bodies`).Scan(&ids,
		&bodies, &size); err != nil {
		t.Fatal(err)
	}
	if ids != 2*ceilingBatch+7 || bodies != ids || size != 512 {
		t.Errorf("%d ids, %d bodies of %d bytes", ids, bodies, size)
	}
}

func TestTheCeilingSyncsAsTheWriterDoes(t *testing.T) {
	c, err := openCeiling(filepath.Join(t.TempDir(), "ceiling.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close() //nolint:errcheck // of a test
	s, err := c.conn.Prepare(selectSynchronous.sql)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := make([]driver.Value, 1)
	if err := rows.Next(level); err != nil || level[0] != int64(2) {
		t.Errorf("synchronous is %v, %v", level, err)
	}
	if err := errors.Join(rows.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestTheCeilingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := Ceiling(ctx, t.TempDir(), 10, 10); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
}

func TestTheCeilingRefusesADirectoryThatIsNotThere(t *testing.T) {
	if _, err := Ceiling(context.Background(), filepath.Join(t.TempDir(), "missing"), 10, 10); err == nil {
		t.Error("no error")
	}
}

func TestTheWriterSyncsFully(t *testing.T) {
	got, err := openTest(t, t.TempDir()).Synchronous(context.Background())
	if err != nil || got != "FULL" {
		t.Errorf("the writer's setting is %q, %v", got, err)
	}
}
