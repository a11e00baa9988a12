// Package backup makes, checks and unpacks backups of a home, and makes them on a schedule.
//
// A backup is a directory with the layout of a home, and a manifest beside it:
//
//	manifest.json            what the backup has, with a hash of each file
//	data/corebot.db          a copy of the database, of one moment
//	data/files/              attached files
//	workspace/, agents/*/workspace/
//	corebot.yaml, .mcp.json  the settings, without their secrets
//
// Guarantees:
//
//   - A backup that has its name is whole, checked and on disk. It is made under another name, beside its own, which it
//     gets last.
//   - Everything that the copied database refers to is in the backup, because the database is copied first.
//   - Nobody waits for a backup: neither the writer of the database, nor a turn.
//   - [Check] finds every file that is missing, was changed or was cut off. [Unpack] hashes what it writes.
//   - No secret of the settings is in a backup. A setting names a file instead, and the manifest says which.
//   - Retention removes only backups with names of its own giving, of the same database, and never the newest.
//
// Limits: a file of a workspace is copied as it is when its turn comes, and one that goes meanwhile is left out.
// Sockets and devices are left out. A backup is not encrypted, and its manifest is not signed: whoever can write the
// directory can change what is restored.
package backup
