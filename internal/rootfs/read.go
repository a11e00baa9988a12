package rootfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// Chunk is a piece of a file.
type Chunk struct {
	Data   []byte
	Offset int64 // where Data begins, in bytes
	Size   int64 // of the whole file, in bytes, when it was opened
}

// ReadFile returns a whole file of at most limit bytes; a larger one is [ErrTooLarge].
func (r *Root) ReadFile(path string, limit int64) ([]byte, error) {
	c, err := r.read(path, 0, limit+1)
	if err != nil {
		return nil, err
	}
	if int64(len(c.Data)) > limit {
		return nil, tooLarge(path, c.Size, limit)
	}
	return c.Data, nil
}

func tooLarge(path string, size, limit int64) error {
	return fmt.Errorf("read %s: it %w: %d bytes, the limit is %d", path, ErrTooLarge, size, limit)
}

// Open gives a file to read. It stays the file that was there, whatever takes its place meanwhile.
func (r *Root) Open(path string) (*os.File, error) {
	name, err := Clean(path)
	if err != nil {
		return nil, err
	}
	f, _, err := r.openFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return f, nil
}

// ReadChunk returns at most limit bytes of a file, from a byte offset on. An offset at or past the end gives no data
// and no error.
func (r *Root) ReadChunk(path string, offset, limit int64) (Chunk, error) {
	if offset < 0 || limit <= 0 {
		return Chunk{}, fmt.Errorf("read %s: offset %d and limit %d: want an offset from 0 and a limit from 1", path,
			offset, limit)
	}
	return r.read(path, offset, limit)
}

func (r *Root) read(path string, offset, limit int64) (Chunk, error) {
	name, err := Clean(path)
	if err != nil {
		return Chunk{}, err
	}
	f, info, err := r.openFile(name)
	if err != nil {
		return Chunk{}, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, offset, limit))
	if err != nil && !errors.Is(err, io.EOF) {
		return Chunk{}, fmt.Errorf("read %s: %w", name, bare(err))
	}
	return Chunk{Data: data, Offset: offset, Size: info.Size()}, nil
}

// Hash is the SHA-256 of a whole file of at most limit bytes; a larger one is [ErrTooLarge]. It holds no more than a
// piece of the file at a time.
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

// Hold keeps all other writers of this Root from a file until release is called: for a change that another process
// makes to the file. Readers see the old file or the new one all the while. Its folder is measured anew afterwards.
// Release it soon: a waiting writer cannot be told to stop.
func (r *Root) Hold(path string) (release func(), err error) {
	clean, err := Clean(path)
	if err != nil {
		return nil, err
	}
	mu := r.lock(clean)
	mu.Lock()
	return func() {
		r.Changed(clean)
		mu.Unlock()
	}, nil
}
