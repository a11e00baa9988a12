package rootfs

import (
	"fmt"

	"github.com/corebot/corebot"
)

// Share limits how a folder can grow while somebody uses it, by what he takes in all folders together. Zero means no
// limit.
type Share struct {
	Who     string // for errors
	Bytes   int64
	Entries int

	Charged Usage // what he took in all folders when he began to use this one
	Held    Usage // what this folder held then

	BytesKey, EntriesKey string // the settings that raise the limits, for hints
}

// check refuses a change after which he takes more than a limit in all folders together.
func (s Share) check(dir string, holds, more Usage) error {
	need := Usage{
		s.Charged.Bytes + holds.Bytes - s.Held.Bytes + more.Bytes,
		s.Charged.Entries + holds.Entries - s.Held.Entries + more.Entries,
	}
	e := newFull(dir, need, Usage{s.Bytes, s.Entries})
	e.Who = s.Who
	const hint = "write less, or delete files in any of these chats; an operator raises %s"
	switch {
	case e.OverCount > 0:
		return corebot.WithHint(e, fmt.Sprintf(hint, s.EntriesKey))
	case e.OverBytes > 0:
		return corebot.WithHint(e, fmt.Sprintf(hint, s.BytesKey))
	}
	return nil
}

// SetShare has the folder of a path grow no further than a share allows, until release is called. One share of a folder
// holds at a time: whoever sets another first releases this one.
func (r *Root) SetShare(path string, s Share) (release func(), err error) {
	clean, err := Clean(path)
	if err != nil {
		return nil, err
	}
	dir, _, ok := r.quota.folder(clean)
	if !ok {
		return func() {}, nil
	}
	r.usages.mu.Lock()
	defer r.usages.mu.Unlock()
	r.usages.shares[Fold(dir)] = s
	return func() {
		r.usages.mu.Lock()
		defer r.usages.mu.Unlock()
		delete(r.usages.shares, Fold(dir))
	}, nil
}

// ShareOf is the share that holds for the folder of a path now.
func (r *Root) ShareOf(path string) (s Share, ok bool) {
	clean, err := Clean(path)
	if err != nil {
		return s, false
	}
	dir, _, ok := r.quota.folder(clean)
	if !ok {
		return s, false
	}
	return r.usages.share(dir)
}

func (u *usages) share(dir string) (s Share, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s, ok = u.shares[Fold(dir)]
	return s, ok
}

// Usage is what the folder of a path holds, and whether all of it was counted: a folder with more entries than its
// limit was not.
func (r *Root) Usage(path string) (holds Usage, whole bool, err error) {
	clean, err := Clean(path)
	if err != nil {
		return holds, false, err
	}
	rm, leave := r.enterFolder(clean)
	defer leave()
	if rm.dir == "" {
		return holds, false, nil
	}
	if known, ok := r.usages.get(rm.dir); ok {
		holds = known.Usage
	} else if holds, err = rm.measure(); err != nil {
		return holds, false, err
	}
	return holds, holds.Entries <= r.quota.mostEntries(), nil
}
