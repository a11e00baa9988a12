package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const ballastName = "ballast"

// ballast is a file whose only use is to be deleted. When the disk is full to the last byte, its blocks let the writer
// go on.
type ballast struct{ path string }

const (
	maxBallast   = 16 << 20 // enough for many seconds of settles
	ballastShare = 2        // half of a small floor, so that the disk keeps some room beside it
)

// ballastFor is the size of the ballast under a floor, in bytes.
func ballastFor(floor int64) int64 { return min(maxBallast, floor/ballastShare) }

// held says whether the file has all its blocks on disk. A crash can have left it too short.
func (b ballast) held(size int64) bool {
	var s unix.Stat_t
	// the unit of st_blocks, whatever the file system's own blocks are
	const unit = 512
	return size > 0 && unix.Stat(b.path, &s) == nil && s.Size == size &&
		int64(s.Blocks)*unit >= size //nolint:unconvert // the types differ between systems
}

// make allocates the file anew. If it fails, it leaves nothing behind.
func (b ballast) make(size int64) (err error) {
	if err := b.release(); err != nil {
		return err
	}
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(fmt.Errorf("allocate %d bytes of ballast: %w", size, err), b.release())
		}
	}()
	if err := allocate(f, size); err == nil {
		return f.Sync()
	}
	// On a file system that cannot reserve blocks, write random data, which nothing can compress.
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		return err
	}
	return f.Sync()
}

// release deletes the file, if there is one.
func (b ballast) release() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the ballast: %w", err)
	}
	return nil
}
