package mention

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxEntries bounds how much of a directory a completion looks at.
const maxEntries = 2_000

// Complete gives the paths that begin with what was typed of one, sorted. A directory ends with a slash. Hidden names
// are given only if what was typed begins with a dot.
func (r Reader) Complete(typed string) []string {
	dir, begin := filepath.Split(typed)
	where := r.Path(dir)
	if where == "" {
		where = "."
	}
	d, err := os.Open(where)
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(maxEntries) // of a directory that cannot be read whole, what there is
	var found []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, begin) || strings.HasPrefix(name, ".") && !strings.HasPrefix(begin, ".") ||
			strings.ContainsAny(name, "\"\n") {
			continue
		}
		if r.isDir(where, e) {
			name += "/"
		}
		found = append(found, dir+name)
	}
	slices.Sort(found)
	return found
}

func (r Reader) isDir(where string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(where, e.Name()))
	return err == nil && info.IsDir()
}

// Common is the longest beginning that all candidates share.
func Common(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	first, last := slices.Min(candidates), slices.Max(candidates)
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	for n > 0 && n < len(first) && first[n]&0xC0 == 0x80 { // within a character
		n--
	}
	return first[:n]
}
