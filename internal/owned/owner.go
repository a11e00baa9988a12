package owned

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Owner gives the user to whom a directory belongs, as the kernel says. ok is false if the directory is missing. It is
// also false if the user namespace of this process does not know the owner: all unknown users share one number there.
func Owner(dir string) (uid int, ok bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, false
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return 0, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || !isMapped(int(stat.Uid)) {
		return 0, false
	}
	return int(stat.Uid), true
}

// usersFile names the users of this machine and their shells. Tests use another.
var usersFile = "/etc/passwd"

// LogsIn says whether somebody can be a user at a terminal. Accounts of services cannot: their shell ends at once. A
// user whom the file of users does not have counts as one who can, because directories of users have others.
func LogsIn(uid int) bool {
	text, err := os.ReadFile(usersFile)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 7 || fields[2] != strconv.Itoa(uid) {
			continue
		}
		shell := filepath.Base(fields[6])
		return shell != "nologin" && shell != "false"
	}
	return true
}
