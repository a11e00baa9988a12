package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/corebot/corebot"
)

// maxFaults is how many damaged files an error names.
const maxFaults = 5

// Check reads every file of a backup and compares its size and its hash with the manifest. It changes nothing.
func Check(ctx context.Context, dir string) (Manifest, error) {
	c := newCopier(ctx, nil, nil)
	return walk(ctx, dir, func(f File, in io.Reader) error {
		if f.Link != nil {
			return nil
		}
		size, sum, err := c.pour(io.Discard, in, f.Size+1)
		return f.verify(size, sum, err)
	})
}

var errChanged = errors.New("it is not what was backed up")

// verify compares what was read with the manifest: its size and its hash. err is the error of the read.
func (f File) verify(size int64, sum string, err error) error {
	if err == nil && (size != f.Size || sum != f.SHA256) {
		return errChanged
	}
	return err
}

// Unpack copies the files of a backup whose paths wants accepts into a directory, with the rights and times that they
// had, and verifies each. The database is not copied: see storage.Restore.
func Unpack(ctx context.Context, dir, into string, wants func(path string) bool) (m Manifest, err error) {
	to, err := os.OpenRoot(into)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	c := newCopier(ctx, to, nil)
	m, err = walk(ctx, dir, func(f File, in io.Reader) error {
		name := f.name()
		switch {
		case name == DatabasePath || !wants(name):
			return nil
		case f.Link != nil:
			return errors.Join(to.MkdirAll(path.Dir(name), 0o700), to.Symlink(string(f.Link), name))
		}
		size, sum, err := c.write(f, in)
		return f.verify(size, sum, err)
	})
	if err != nil {
		return m, err
	}
	for _, tree := range m.Trees { // a tree without files is made, too
		if err := to.MkdirAll(tree, 0o700); err != nil {
			return m, err
		}
	}
	return m, syncDirs(into)
}

// walk hands every file of a backup to do, with its content. Its error names the files for which do fails.
func walk(ctx context.Context, dir string, do func(f File, in io.Reader) error) (m Manifest, err error) {
	root, file, err := open(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, file.Close(), root.Close()) }()
	var faults []string
	found := 0
	m, err = readManifest(bufio.NewReader(file), func(f File) error {
		err := visit(root, f, do)
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if found++; found <= maxFaults {
			faults = append(faults, fmt.Sprintf("%s: %v", f.name(), bare(err)))
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return m, context.Cause(ctx)
	case corebot.HintOf(err) != "":
		return m, fmt.Errorf("read the manifest of %s: %w", dir, err)
	case err != nil:
		return m, damaged(fmt.Errorf("the manifest of %s cannot be read: %w", dir, err))
	case found > len(faults):
		faults = append(faults, fmt.Sprintf("and %d files more", found-len(faults)))
	}
	if found > 0 {
		return m, damaged(fmt.Errorf("the backup %s is damaged: %s", dir, strings.Join(faults, "; ")))
	}
	return m, nil
}

func damaged(err error) error {
	return corebot.WithHint(err, "nothing was changed; take another backup")
}

// bare takes the path out of an error: the caller writes the name of the file before the error.
func bare(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// visit opens a file of a backup for do.
func visit(root *os.Root, f File, do func(f File, in io.Reader) error) error {
	if f.Link != nil {
		return do(f, nil)
	}
	info, err := root.Lstat(f.name())
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a plain file")
	}
	in, err := root.Open(f.name())
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	return do(f, in)
}

// open opens a backup and its manifest.
func open(dir string) (*os.Root, *os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the backup: %w", err)
	}
	file, err := root.Open(ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(noBackup(dir), root.Close())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open the backup: %w", err), root.Close())
	}
	return root, file, nil
}

// noBackup is the error for a directory without a manifest. Its hint names the newest backup inside the directory, if
// there is one.
func noBackup(dir string) error {
	hint := "name a directory that `corebot db backup` has made"
	if found, err := List(dir); err == nil && len(found) > 0 {
		hint = "the newest backup in it is " + found[0].Path
	}
	return corebot.WithHint(fmt.Errorf("%s is no backup: it has no %s", dir, ManifestName), hint)
}

// TreeOf gives the copied directory, such as workspace, that has a path of a backup; empty: no such directory has it.
func TreeOf(path string) string {
	_, tree := partOf(path)
	return tree
}

// SettingsFiles lists the paths of the files of settings that a backup has.
func SettingsFiles(dir string) (all []string, err error) {
	root, file, err := open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), root.Close()) }()
	_, err = readManifest(bufio.NewReader(file), func(f File) error {
		if IsSettingsFile(f.name()) {
			all = append(all, f.name())
		}
		return nil
	})
	return all, err
}

// IsSettingsFile says whether a path in a backup is a file of settings.
func IsSettingsFile(path string) bool {
	p, _ := partOf(path)
	return p == partSettings
}
