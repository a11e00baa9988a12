// Package isolation runs programs for tools, and the work of some tools themselves, in worker processes, behind walls that hold although program
// and arguments were chosen by somebody who means harm.
//
// A worker is this same binary, executed again. It reads one request, puts itself behind the walls, and becomes the program; which for the work of a tool
// is this binary once more.
//
// Guarantees of [Runner.Run]:
//   - Only what the operator listed runs, by the path that its entry had when Corebot started, with arguments as its entry has them, without any
//     shell. Unless its entry says otherwise, a program can execute nothing: whatever it is told to start, the kernel refuses, itself and its loader too.
//   - It reads the system's programs and libraries, writes the conversation's own directory and a temporary one, and reaches no other
//     file: not Corebot's settings, database or keys, nor other conversations.
//   - It has no network, no sockets of any kind, and no way to look into, signal or trace a process that is not its own.
//   - It is never root, gains no privileges, and has limits on processor time, memory, file size, open files and processes.
//   - It sees no variable of Corebot's environment that was not listed.
//   - Its output is capped while it is read. At the deadline, when the caller's context ends, when the program itself ends, and when
//     Corebot dies, everything that it has started dies with it, however detached.
//
// Guarantees of [Runner.Do], which are for code of ours that reads what strangers wrote, and so for that code taken over:
//   - It reaches the workspace, to read or to write, or nothing; of the system no file that was not named.
//   - It has no network. What connections it has were made outside, by rules that it cannot change, and handed to it.
//   - It is who Corebot is only where it may reach the files that are his. Root is left with the one capability to pass over permissions there.
//   - It ends: a crash, an endless loop, too much memory, or an answer that makes no sense is [ErrNoAnswer], and nothing of it is left.
//
// There are two ways to build the walls, and Corebot takes the first that the kernel lets it have ([Runner.Inspect]):
//
//   - [Room]: namespaces of its own. The root is empty but for what the program may see; its processes are all that it sees.
//   - [Bare]: without namespaces (many containers forbid them). Landlock holds the files alone; a filter of system calls refuses what
//     Landlock leaves open, such as changing the mode of a file elsewhere; a keeper process collects what detaches itself.
//
// The filter lets through the system calls that are listed as harmless. What it does not know is a call that the kernel does not have.
//
// Both need Landlock (Linux 5.13) and seccomp. Where one is missing, nothing runs.
//
// Limits: /proc is closed, which some programs mind. The memory limit is per process and does not count memory that is shared on purpose
// (MAP_SHARED); a program may fill the disk of its conversation's directory file by file, and use the processor until its deadline. In
// a bare worker names, sizes and times of files elsewhere can be seen, though not their content, and a program can load code that was written in its
// directory, if its arguments can have it load any. Linux on amd64 and arm64 only.
package isolation
