//go:build linux && (amd64 || arm64)

package isolation

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTheSystemdUnitLetsWorkersBuildTheirRooms compares the shipped unit with the code. RestrictNamespaces allows the
// namespaces of a room, and the system calls are those that build the walls. scripts/unit tries it under a real
// systemd.
func TestTheSystemdUnitLetsWorkersBuildTheirRooms(t *testing.T) {
	text, err := os.ReadFile("../../docs/deploy/corebot.service")
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			lists[name] = strings.Fields(value)
		}
	}
	names := map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	}
	var allowed uintptr
	for _, name := range lists["RestrictNamespaces"] {
		allowed |= names[name]
	}
	if want := attributes(&request{Mode: Room}).Cloneflags; allowed != want {
		t.Errorf("the unit allows the namespaces %#x, a room has %#x", allowed, want)
	}
	for _, call := range []string{
		"@system-service", "@mount", "seccomp",
		"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	} {
		if !slices.Contains(lists["SystemCallFilter"], call) {
			t.Errorf("the unit does not let %s through", call)
		}
	}
	// netlink tells the machine's own addresses, which tools must not reach
	for _, family := range []string{"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"} {
		if !slices.Contains(lists["RestrictAddressFamilies"], family) {
			t.Errorf("the unit does not let %s through", family)
		}
	}
	for _, setting := range []string{
		"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "MemoryDenyWriteExecute",
	} {
		if _, there := lists[setting]; there {
			t.Errorf("%s takes something from sandboxes or metrics: see the end of the unit", setting)
		}
	}
}
