package storage

import (
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
)

// sqliteError is an error of SQLite's own, from the writer's engine or from the readers' driver.
type sqliteError interface {
	error
	Code() int // extended result code
}

func ofSQLite(err error) bool {
	_, ok := asSQLite(err)
	return ok
}

func asSQLite(err error) (e sqliteError, ok bool) {
	if err == nil {
		return nil, false
	}
	ok = errors.As(err, &e)
	return e, ok
}

// classify turns what SQLite says into the errors that callers decide on. It knows codes, not texts.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var e sqliteError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", corebot.ErrDiskFull, err)
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return fmt.Errorf("%w: %w", corebot.ErrUnstorable, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corebot.WithHint(fmt.Errorf("the database is damaged: %w", err), repairHint)
	}
	return err
}

const repairHint = "nothing was changed; run `corebot db check`, and if it agrees, `corebot db restore` with the newest file of data/backups"
