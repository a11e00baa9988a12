package storage

// inject makes statements of the write connection fail when a test wants them to, until the writer reopens it. Call it
// before Run.
func inject(db *DB, fault func(sql string, after bool) error) { db.conn.trouble = fault }
