// Package resident takes the code that only the start of a program ran out of the program's memory.
//
// A start runs through most of a Go program: each package sets up its variables. So most pages of the program's file
// are mapped from then on, and count as memory of the process, though an idle daemon runs a fraction of them. The
// kernel drops them only when memory is short.
//
// Nothing is read from the disk again: the pages stay in the kernel's cache of files, and what still runs is mapped
// from there at once. [Drop] takes about a millisecond. On other systems than Linux it does nothing.
package resident

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// mapping is a part of the address space.
type mapping struct{ from, to uintptr }

// ofFile finds in a text like that of /proc/self/smaps the mappings of a file that hold nothing but what the file has.
// They cannot be written, and no page of them was. A program that is linked to run at any address has mappings that
// were written before they were closed; to drop those would end it.
func ofFile(smaps io.Reader, file string) (found []mapping, err error) {
	var last mapping
	pure := false // the last mapping is one to give, as far as its lines are read
	end := func() {
		if pure {
			found = append(found, last)
		}
	}
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if name, ok := strings.CutSuffix(fields[0], ":"); ok { // of the mapping whose line came last
			if name == "Anonymous" || name == "Swap" {
				pure = pure && len(fields) > 1 && fields[1] == "0"
			}
			continue
		}
		end()
		var of, mode string
		if last, mode, of, err = parse(lines.Text()); err != nil {
			return nil, err
		}
		pure = of == file && (mode == "r-xp" || mode == "r--p")
	}
	end()
	return found, lines.Err()
}

// parse reads the first line of a mapping: addresses, mode, offset, device, inode, file.
func parse(line string) (m mapping, mode, file string, err error) {
	parts := strings.SplitN(line, " ", 6)
	if len(parts) < 5 {
		return m, "", "", strconv.ErrSyntax
	}
	from, to, _ := strings.Cut(parts[0], "-")
	for text, at := range map[string]*uintptr{from: &m.from, to: &m.to} {
		n, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return m, "", "", err
		}
		*at = uintptr(n)
	}
	if len(parts) == 6 {
		file = strings.TrimLeft(parts[5], " ")
	}
	return m, parts[1], file, nil
}
