// Package needs skips the tests of what a machine does not have, such as a browser or the rights of root.
//
// Nobody sees a skipped test, so a skip can hide a fault. A sandbox that breaks is no reason to leave out its tests.
// .ci/run therefore looks for what the machine lacks, prints it, and names it in CI_LACKS. Where the variable is set,
// only tests of what it names are skipped. Any other test that finds something missing fails.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// variable has the names of what the machine lacks, with spaces between them. It is set, though empty, where .ci/run
// has looked.
const variable = "CI_LACKS"

// Missing ends a test that cannot run here. The argument what is a name of [Names], and why is printed.
func Missing(t testing.TB, what string, why ...any) {
	t.Helper()
	named, looked := os.LookupEnv(variable)
	switch {
	case !slices.Contains(Names(), what):
		t.Fatalf("%s is no name of what a machine can lack", what)
	case looked && !slices.Contains(strings.Fields(named), what):
		t.Fatalf("this test would be skipped for want of %s (%s), which .ci/run has found", what, fmt.Sprint(why...))
	}
	t.Skip(append([]any{"without", what + ":"}, why...)...)
}

// Program is the path of a program. It skips the test where the program is not installed.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name, err)
	}
	return path
}

// Root skips a test that needs the rights of root.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", "the test gives files away, or mounts")
	}
}

// Names are what .ci/run looks for. Programs have their own names.
func Names() []string {
	return []string{
		"bash", "chromium", "curl", "git", "go", "ip", "node", "npm", "promtool", "systemd-analyze", "tmux",
		"root",       // its rights
		"mounts",     // the right to mount a file system
		"networks",   // namespaces of the network
		"users",      // namespaces of users
		"namespaces", // all those that a sandbox is made of
		"inotify",    // notes of changed files, which .ci/run never finds missing
		"idmapped",   // another owner of the files of a mount, also in memory: Linux 6.3
		"terminals",  // pseudo terminals
		"tunnels",    // virtual network interfaces
		"disk",       // /var/tmp on a disk
		"memory",     // shared memory with room
	}
}
