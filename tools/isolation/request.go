package isolation

import (
	"net"
	"time"
)

// WorkerCommand is the argument by which this binary, executed again, becomes a worker. main calls [Work] then, before
// anything else.
const WorkerCommand = "isolation-worker"

// ToolCommand is the argument by which this binary, executed by a worker behind its walls, does the work of a tool.
// main calls [Serve] then.
const ToolCommand = "isolation-tool"

// Mode is how the walls are built. The values are shown to operators.
type Mode string

const (
	Room Mode = "namespaces" // a root, a network, a view of processes of its own
	Bare Mode = "landlock"   // without namespaces, in the sight of the rest of the system
)

// role is what a worker process is to do.
type role string

const (
	becomeProgram role = "program" // go behind the walls and execute the program
	keepProgram   role = "keeper"  // start such a worker, and collect all that it leaves behind
	tellWalls     role = "probe"   // go behind the walls and say that they stand
)

// The file descriptors of a worker, beside its standard ones. The other end of the first stays open as long as the
// worker is wanted: its end is the order to stop, also when Corebot was killed.
const (
	requestFD = 3
	reportFD  = 4
	networkFD = 5 // of a sandbox with a network: where it hands its listener over
)

const (
	maxRequest = 1 << 20 // bytes of JSON
	maxReport  = 64 << 10
)

// request is all that a worker is told. Nothing else reaches it: it opens no settings and no database.
type request struct {
	Role        role     `json:"role"`
	Mode        Mode     `json:"mode"`
	Program     string   `json:"program"`
	Interpreter string   `json:"interpreter,omitempty"`
	Family      bool     `json:"family,omitempty"` // it may execute the system's other programs
	Argv        []string `json:"argv"`
	Env         []string `json:"env"`
	Own         bool     `json:"own,omitempty"` // it is this binary at work for a tool: see [Runner.Do]
	Dir         string   `json:"dir"`           // the working directory, as it is called outside
	DirReadOnly bool     `json:"dirReadOnly,omitempty"`
	Tmp         string   `json:"tmp,omitempty"` // the temporary directory of a bare worker
	Readable    []string `json:"readable,omitempty"`
	UID         int      `json:"uid,omitempty"` // to become, and the group too; zero: stay who we are
	Limits      limits   `json:"limits"`

	Sandbox bool    `json:"sandbox,omitempty"` // any program of the room may run: see [Runner.RunSandboxed]
	Home    string  `json:"home,omitempty"`    // of a sandbox, as it is called outside
	At      string  `json:"at,omitempty"`      // where a sandbox's program begins, as the room calls it
	Mounts  []Mount `json:"mounts,omitempty"`  // of a sandbox
	Network bool    `json:"network,omitempty"` // a sandbox has a listener, and somebody behind it

	Trees map[string]int `json:"trees,omitempty"` // descriptors of mounts that Corebot has made, by their place

	serve func(net.Listener) // serves that listener until it is closed
	trees []ownedTree
}

// limits bound what a program uses.
type limits struct {
	CPU       time.Duration `json:"cpu"` // of each process
	Processes uint64        `json:"processes"`
	Data      uint64        `json:"data"`  // bytes of private memory of each process
	Files     uint64        `json:"files"` // open at once, of each process
}

// Bounds that are the same for every program.
const (
	maxData      = 2 << 30   // bytes of private memory of a process
	maxOwnData   = 512 << 20 // the same, of this binary at work for a tool
	maxFileSize  = 256 << 20 // bytes of a file that it writes
	maxOpenFiles = 256
	maxProcesses = 128      // with their threads, of one worker
	roomTmpSize  = 64 << 20 // bytes of the temporary directory of a room

	maxSandboxProcesses = 512 // compilers and package managers start many
	maxSandboxFiles     = 1024
)

// The working directory and the temporary directory, as a program in a room sees them.
const (
	roomDir  = "/work"
	roomTmp  = "/tmp"
	roomHome = "/sandbox" // of sandboxes only
)

// report is what a worker says about itself, of several reports the last.
type report struct {
	Error    string `json:"error,omitempty"`   // something failed; the program did not run
	Started  bool   `json:"started,omitempty"` // the walls stand, and the program is executed next
	Ended    bool   `json:"ended,omitempty"`   // of a keeper: the program ended, as follows
	Exit     int    `json:"exit,omitempty"`
	Signal   int    `json:"signal,omitempty"`
	Landlock int    `json:"landlock,omitempty"` // of a probe: the version of the kernel's interface
	Once     bool   `json:"once,omitempty"`     // of a probe: a program can execute nothing
}

// systemDirs are what a program may see of the system, where it exists. Corebot's own directories are never in it.
func systemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}
}

// systemFiles are the parts of /etc that programs need, and none that has secrets.
func systemFiles() []string {
	return []string{
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/ld.so.cache", "/etc/ld.so.conf",
		"/etc/ld.so.conf.d",
		"/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path", "/etc/alternatives", "/etc/ssl/certs",
		"/etc/ssl/openssl.cnf", "/etc/mime.types", "/etc/magic",
	}
}

// directories are those of the system that the program may see. This binary needs none, unless it was linked with the
// system's libraries.
func (r *request) directories() []string {
	if r.Own && r.Interpreter == "" {
		return nil
	}
	return systemDirs()
}

// files are what it may see beside them.
func (r *request) files() []string {
	if r.Own {
		return append([]string{"/etc/ld.so.cache"}, r.Readable...)
	}
	return append(systemFiles(), r.Readable...)
}

func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}
