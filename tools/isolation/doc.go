// Package isolation runs programs for tools, and the work of some tools themselves, in worker processes behind walls.
// The walls hold although somebody who means harm chose the program and its arguments.
//
// A worker is this same binary, executed again. It reads one request, puts itself behind the walls, and becomes the
// program. For the work of a tool that program is this binary once more.
//
// Guarantees of [Runner.Run]:
//
//   - Only programs that the operator listed run, without any shell. The path is the one that the entry had when
//     Corebot started, and the arguments follow the entry. Unless the entry says otherwise, a program can execute
//     nothing: the kernel refuses every program, itself and its loader too.
//   - The program reads the system's programs and libraries, and writes the conversation's own directory and a
//     temporary one. It reaches no other file: not Corebot's settings, database or keys, nor other conversations.
//   - It has no network, no sockets of any kind, and no way to look into, signal or trace a process that is not its
//     own.
//   - It is never root, gains no privileges, and has limits on processor time, memory, file size, open files and
//     processes.
//   - It sees only the variables of Corebot's environment that were listed.
//   - Its output is capped while it is read. Everything that it has started dies, however detached: at the deadline,
//     when the caller's context ends, when the program itself ends, and when Corebot dies.
//
// [Runner.Do] is for our own code that reads untrusted text, and so for code that was taken over. Its guarantees:
//
//   - It reaches the workspace, to read or to write, or nothing. Of the system it reaches only files that were named.
//   - It has no network. Its connections were made outside, by rules that it cannot change, and handed to it.
//   - It runs as Corebot's user only where it may reach that user's files. Root keeps one capability there: to pass
//     over permissions.
//   - It ends. A crash, an endless loop, too much memory, or an answer that makes no sense is [ErrNoAnswer], and
//     nothing of it is left.
//
// [Runner.RunSandboxed] runs any program, also one that it wrote itself, in a room. Its guarantees:
//
//   - It reads the system's programs and libraries, and the mounts. It writes the conversation's files, a home of the
//     conversation, a temporary directory, and the mounts that are opened for writing. There are no other files.
//   - Its network has only itself. With a proxy there is one way out, a listener that Corebot serves. The room has no
//     DNS, and no sockets but TCP.
//   - It sees and signals its own processes only. Processes, output and time have limits, and nothing outlives it.
//   - Without a room nothing runs: there is no sandbox behind weaker walls.
//
// There are two ways to build the walls. Corebot takes the first that the kernel allows ([Runner.Inspect]):
//
//   - [Room] has namespaces of its own. The root has only what the program may see, and the program sees only its own
//     processes.
//   - [Bare] has no namespaces: many containers forbid them. Landlock alone holds the files. A filter of system calls
//     refuses what Landlock leaves open, such as changing the mode of a file elsewhere. A keeper process collects
//     detached processes.
//
// The filter lets only system calls through that are listed as harmless. To the program, every other call is a call
// that the kernel does not have.
//
// Both ways need Landlock (Linux 5.13) and seccomp. Where one is missing, nothing runs.
//
// Limits: /proc is closed, which some programs mind; in a sandbox it shows the program's own processes, and how the
// directories of the room are called outside. The memory limit is per process and does not count memory that is
// shared on purpose (MAP_SHARED). A program may fill the disk of its conversation's directory file by file, and use the
// processor until its deadline. In a bare worker a program sees names, sizes and times of files elsewhere, but not
// their content. There it can also load code from its directory, if its arguments can name any. Linux on amd64 and
// arm64 only.
package isolation
