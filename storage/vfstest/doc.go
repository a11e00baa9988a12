// Package vfstest stands between SQLite and its files. Tests use it to prove what a store keeps when the power or the
// disk fails. Only tests import it.
//
//   - [Install] wraps SQLite's default VFS for one directory and makes the wrapper the default. Every connection of
//     the process then passes it, and the program under test needs no hook. Other directories are untouched.
//   - [Recording] notes each call that changes a file, in order.
//   - [Disk] replays a recording up to a moment and makes files as a power cut at that moment could have left them.
//   - [Faults] makes the nth write, sync or truncate fail: disk full, input/output error, or a write that stops half
//     way.
//
// # The model of a power cut
//
// A successful sync puts everything before it on disk. [Disk.Cut] decides about every later write: it can drop all
// writes, keep all, keep the writes up to some call, or keep any subset. A subset consists of whole calls or of pieces
// of 512 bytes (a torn write). A later call can survive where an earlier one does not. Reordering can do no more: each
// piece of a file holds one of the versions that it ever had. The same holds for truncates. A file can have grown
// without its new content; such a hole reads as zeros or as garbage.
//
// A directory is a file of its own. Creating or deleting a name lasts once the directory is synced. SQLite syncs the
// directory with the first sync of a new journal or WAL, and with some deletes. Until then each name can be in any of
// its earlier states, independently of other names and of synced content.
//
// After a failed sync nobody knows what is on disk, and a later successful sync does not change that. A kernel can have
// dropped the data and forgotten that it was dirty. Such writes stay in doubt for good unless they are written again.
//
// # What the model does not cover
//
//   - A disk that lies: it reports a sync and has not written. ([Disk.IgnoreSyncs] is such a disk, to show the
//     damage.)
//   - Damage to bytes that nobody was writing. SQLite assumes power-safe overwrite, and so does the model.
//   - Shared memory (the -shm file). It is not durable, SQLite makes it anew, and its calls pass through unseen. A
//     full disk can fail there too; vfstest does not inject this.
//   - Changes made without SQLite. vfstest notices them when SQLite opens the file: a rename as a rename, anything
//     else as a new file with new content. A directory that was synced without SQLite counts as not synced.
//   - Memory-mapped access, which the wrapper turns off, and more than one process.
package vfstest
