package rootfs

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// Hash is the SHA-256 of a whole file of at most limit bytes; a larger one is [ErrTooLarge]. It holds no more than a piece of the file at a time.
func (r *Root) Hash(path string, limit int64) (sum [sha256.Size]byte, err error) {
	name, err := Clean(path)
	if err != nil {
		return sum, err
	}
	f, info, err := r.openFile(name)
	if err != nil {
		return sum, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return sum, fmt.Errorf("read %s: %w", name, bare(err))
	case n > limit:
		return sum, tooLarge(name, info.Size(), limit)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
