package tools

import (
	"context"
	"path"

	"github.com/corebot/corebot"
)

// A file whose whole content untainted turns of one principal have written is not from outside for him. The kept
// changes of files tell: each has the hash of what it makes of its file. Only bytes with that hash count. So it does
// not matter whether the change was made, what else has written the file meanwhile, or what the file is by then.

// Written is what untainted turns of one principal have written in a conversation. The zero Written is nothing.
type Written struct {
	contents map[string]string // of files, by their paths
	names    map[string]bool   // paths, and the directories above them
}

// Has says whether the newest change of a file is known to be the principal's own.
func (w Written) Has(path string) bool { return w.contents[path] != "" }

// Wrote says whether data is what the principal's own newest change has made of a file.
func (w Written) Wrote(path string, data []byte) bool {
	return w.Has(path) && w.contents[path] == contentOf(data, true)
}

// Named says whether an untainted turn of the principal has named a file or directory of the workspace so.
func (w Written) Named(path string) bool { return w.names[path] }

// Written is what untainted turns of the call's principal have written in its conversation, as far as the kept changes
// go back. For a sender without an id, and in a turn of several people, it is nothing.
func (c Call) Written(ctx context.Context) (w Written, err error) {
	if c.versions == nil || c.Principal.ID == "" || len(c.Others) > 0 {
		return w, nil
	}
	all, err := c.versions.Newest(ctx, c.Key)
	if err != nil {
		return w, err
	}
	w = Written{map[string]string{}, map[string]bool{}}
	later := map[string]bool{} // files and directories that a newer change has changed, or moved away
	for _, v := range all {
		own := v.Principal == c.Principal
		if own && v.Authored == corebot.AuthoredContent && !within(later, v.Path) {
			w.contents[v.Path] = v.After
		}
		later[v.Path], later[v.From] = true, true
		for p := v.Path; own && v.Authored != corebot.AuthoredNothing && p != "." && p != "/"; p = path.Dir(p) {
			w.names[p] = true
		}
	}
	return w, nil
}

// within says whether a path, or a directory above it, is one of some.
func within(some map[string]bool, p string) bool {
	for ; p != "." && p != "/"; p = path.Dir(p) {
		if some[p] {
			return true
		}
	}
	return false
}

// authored says what of a change nobody but the call's principal can have had a hand in. A change that keeps something
// of what is there is his own only if that is. Files of directories that the operator has opened are nobody's.
func (s *Versions) authored(ctx context.Context, call Call, c Change, v corebot.FileVersion) (corebot.Authored, error) {
	place, err := s.reach.Find(c.Path)
	if err != nil || !place.InWorkspace() || call.Taint != "" || call.Principal.ID == "" || len(call.Others) > 0 ||
		call.Entry.Kind == corebot.EntryClient {
		return corebot.AuthoredNothing, nil
	}
	if c.Dir || c.Deletes {
		return corebot.AuthoredPath, nil
	}
	kept, content := v.Path, v.Before // what the change keeps
	if c.From != "" {
		kept, content = v.From, v.After
	} else if data, err := c.Make(nil, false); err == nil && contentOf(data, true) == v.After {
		return corebot.AuthoredContent, nil // the arguments say all of it
	}
	w, err := call.Written(ctx)
	if err == nil && w.Has(kept) && w.contents[kept] == content {
		return corebot.AuthoredContent, nil
	}
	return corebot.AuthoredPath, err
}
