package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/workspace"
)

// Repair is one change that `corebot doctor --fix` can make safely.
type Repair struct {
	What string // such as "chmod 600 corebot.yaml"
	Note string // what a person should look at all the same; empty: nothing
	Do   func() error
}

// maxMended bounds the files that are looked at.
const maxMended = 100_000

// Repairs looks for what can be mended in a home, and changes nothing yet. It finds rights of others, missing
// templates, and a control socket at which nobody listens. Links, files of other users and files with several names are
// left alone, because a change of them could act elsewhere.
func Repairs(ctx context.Context, home string) (all []Repair, err error) {
	root, err := os.OpenRoot(home)
	if errors.Is(err, fs.ErrNotExist) {
		return []Repair{{What: "make the home " + home, Do: func() error {
			_, err := Init(home, false)
			return err
		}}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the home: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read
	seen := 0
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if seen++; err != nil || seen > maxMended || ctx.Err() != nil {
			return errors.Join(err, ctx.Err(), tooMany(seen))
		}
		if r, wrong := rights(home, path, d); wrong {
			all = append(all, r)
		}
		if path == "data/backups" { // each has as many files as the home, and nobody else gets into the directory
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the home: %w", err)
	}
	all = append(all, missingPages(home)...)
	return append(all, staleSocket(ctx, home)...), nil
}

func tooMany(seen int) error {
	if seen > maxMended {
		return fmt.Errorf("it has more than %d files", maxMended)
	}
	return nil
}

// rights is the repair of a file or directory that others can reach.
func rights(home, path string, d fs.DirEntry) (Repair, bool) {
	info, err := d.Info()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return Repair{}, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known || int(stat.Uid) != os.Geteuid() || !info.IsDir() && stat.Nlink > 1 {
		return Repair{}, false
	}
	mode := info.Mode().Perm() &^ 0o077
	r := Repair{What: fmt.Sprintf("chmod %03o %s", mode, filepath.Join(home, path)), Do: func() error {
		return closeToOthers(home, path, mode)
	}}
	if info.Mode().Perm()&0o022 != 0 {
		r.Note = "others may have written to it: look at what it says before you start Corebot"
	}
	return r, true
}

// closeToOthers changes the mode of what is there now, which must still be no link.
func closeToOthers(home, path string, mode fs.FileMode) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
	info, err := root.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a link by now", path)
	}
	if err != nil {
		return err
	}
	return root.Chmod(path, mode)
}

// missingPages puts templates in place, as every start does. [workspace.Bootstrap] does not come back.
func missingPages(home string) []Repair {
	c, err := LoadConfig(home)
	if err != nil {
		return nil
	}
	var all []Repair
	for _, p := range places(c) {
		for _, page := range workspace.Pages() {
			path := filepath.Join(p.workspace(), page)
			if _, err := os.Lstat(path); page == workspace.Bootstrap || !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			all = append(all, Repair{What: "write the template of " + path, Do: func() error { return install(p) }})
		}
	}
	return all
}

func install(p place) error {
	w, err := openWorkspace(p, rootfs.Quota{}, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	return w.root.Close()
}

// staleSocket removes the control socket of a process that is gone. The lock of the home keeps a Corebot that begins at
// this moment from losing its own.
func staleSocket(ctx context.Context, home string) []Repair {
	path := filepath.Join(DataDir(home), control.SocketName)
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(DataDir(home), storage.FileName)); err != nil {
		return nil
	}
	if _, running, err := control.Dial(ctx, DataDir(home)); running || err != nil {
		return nil
	}
	return []Repair{{What: "remove " + path + ", at which nobody listens", Do: func() error {
		return WithStore(ctx, home, func(*storage.DB) error { return os.Remove(path) })
	}}}
}
