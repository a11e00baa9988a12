package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

const (
	hashSize = sha256.Size
	pourSize = 256 << 10 // bytes that are copied at a time
)

// copier copies files into a directory, hashes them and lists them.
type copier struct {
	ctx    context.Context //nolint:containedctx // it lives as long as one call
	to     *os.Root
	list   *bufio.Writer
	noted  int64
	total  Total
	buffer []byte
	sum    hash.Hash
}

// newCopier makes a copier; to is nil if nothing is written, and so is list if nothing is listed.
func newCopier(ctx context.Context, to *os.Root, list io.Writer) *copier {
	return &copier{
		ctx: ctx, to: to, list: bufio.NewWriter(list), buffer: make([]byte, pourSize), sum: sha256.New(),
	}
}

// pour copies at most limit bytes and hashes them. It ends when the context does.
func (c *copier) pour(to io.Writer, from io.Reader, limit int64) (size int64, sum string, err error) {
	c.sum.Reset()
	from = io.LimitReader(from, limit)
	for {
		if c.ctx.Err() != nil {
			return size, "", context.Cause(c.ctx)
		}
		n, err := from.Read(c.buffer)
		if n > 0 {
			c.sum.Write(c.buffer[:n])
			if _, err := to.Write(c.buffer[:n]); err != nil {
				return size, "", err
			}
			size += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return size, hex.EncodeToString(c.sum.Sum(nil)), nil
		}
		if err != nil {
			return size, "", err
		}
	}
}

// tree copies what is in a directory; there says whether the directory is there.
func (c *copier) tree(dir, name string) (there bool, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return true, errors.Join(c.to.MkdirAll(name, 0o700), fs.WalkDir(root.FS(), ".", func(at string, d fs.DirEntry,
		err error,
	) error {
		if err == nil && !d.IsDir() {
			err = c.entry(root, at, d, path.Join(name, at))
		}
		if errors.Is(err, fs.ErrNotExist) && at != "." { // it went meanwhile
			c.total.Skipped++
			return nil
		}
		if errors.Is(err, fs.ErrPermission) {
			return corebot.WithHint(err, "make it readable for the user who runs Corebot")
		}
		return err
	}))
}

// entry copies one entry of a directory.
func (c *copier) entry(root *os.Root, at string, d fs.DirEntry, name string) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	f := File{Path: name}
	if !utf8.ValidString(name) {
		f = File{Bytes: []byte(name)}
	}
	switch d.Type() {
	case fs.ModeSymlink:
		to, err := root.Readlink(at)
		if err != nil {
			return err
		}
		f.Link = []byte(to)
		return c.note(f)
	case 0:
		return c.file(root, at, f)
	}
	c.total.Skipped++
	return nil
}

// file copies a plain file. It waits for nobody at a pipe that took the file's place.
func (c *copier) file(root *os.Root, at string, f File) error {
	in, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		c.total.Skipped++
		return nil
	}
	// a file that grows meanwhile is copied as long as it was
	f.Size, f.Program, f.Modified = info.Size(), info.Mode()&0o100 != 0, info.ModTime().UTC()
	if f.Size, f.SHA256, err = c.write(f, in); err != nil {
		return err
	}
	return c.note(f)
}

// text writes a file of settings.
func (c *copier) text(t SettingsFile) error {
	f := File{Path: t.Path, Size: int64(len(t.Data)), Modified: time.Now().UTC()}
	_, sum, err := c.write(f, bytes.NewReader(t.Data))
	if err != nil {
		return err
	}
	f.SHA256 = sum
	return c.note(f)
}

// write makes a new file, which is on disk then with its time. It is closed to others, as all of a home is.
func (c *copier) write(f File, from io.Reader) (size int64, sum string, err error) {
	name := f.name()
	if err := c.to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return 0, "", err
	}
	mode := os.FileMode(0o600)
	if f.Program {
		mode = 0o700
	}
	out, err := c.to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return 0, "", err
	}
	size, sum, err = c.pour(out, from, f.Size)
	if err == nil {
		err = errors.Join(c.to.Chtimes(name, f.Modified, f.Modified), out.Sync())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return size, sum, fmt.Errorf("write %s: %w", name, err)
	}
	return size, sum, nil
}

// sizeOf is how many bytes the files of a directory have.
func sizeOf(ctx context.Context, dir string) (size int64, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // whatever cannot be read is told when it is copied
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size, err
}
