// Package vfstest stands between SQLite and its files, for the tests that prove what a store keeps when the power fails or the
// disk does. Only tests import it.
//
//   - [Install] wraps SQLite's default VFS for one directory and makes the wrapper the default, so that every connection of
//     the process passes it and the program under test needs no hook. Other directories are untouched.
//   - [Recording] notes each call that changes a file, in order.
//   - [Disk] replays a recording up to a moment and makes files as a power cut at that moment could have left them.
//   - [Faults] lets the nth write, sync or truncate fail: disk full, input/output error, or a write that stops half way.
//
// # The model of a power cut
//
// What a sync that succeeded covers is on disk. Everything since is at the mercy of [Disk.Cut]: dropped whole, kept whole, kept
// up to some call, or any subset of it, call by call or in pieces of 512 bytes (a torn write). A later call may survive where an
// earlier one does not, which is all that reordering can do: a piece of a file holds one of the versions that it ever had. The
// same holds for truncates. A file may have grown without its new content having arrived; such a hole reads as zeros or as garbage.
//
// A directory is a file of its own: creating and deleting a name last once the directory is synced, which SQLite does with
// the first sync of a new journal or WAL and with some deletes. Until then each name may be in any of the states that it went
// through, independently of the others, and whether or not its content was synced.
//
// After a sync that failed nobody knows what is on disk, and a later sync that succeeds does not change that: a kernel may have
// dropped the data and forgotten that it was ever dirty. Such writes stay in doubt for good unless they are written again.
//
// # What the model does not cover
//
//   - A disk that lies: that reports a sync and has not written. ([Disk.IgnoreSyncs] is such a disk, to show what it costs.)
//   - Damage to bytes that nobody was writing. SQLite is built for power-safe overwrite and so is the model.
//   - Shared memory (the -shm file): it is not durable, SQLite makes it anew, and its calls pass through unseen. A disk that is full
//     can fail there too; that is not injected.
//   - Changes made without SQLite. They are noticed when SQLite opens the file: a rename as such, anything else as a new file with new
//     content; a directory synced without SQLite counts as not synced.
//   - Memory-mapped access, which the wrapper turns off, and more than one process.
package vfstest
