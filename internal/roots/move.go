package roots

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/corebot/corebot/internal/rootfs"
)

// MaxMoved is the largest file that is moved from one root to another, or whose content an approval binds: it is read
// whole.
const MaxMoved = 64 << 20

// Look reads the two files of a move when no other writer can come between it and the move. A path where no plain file
// is gives no data, and exists is false.
type Look func(path string) (data []byte, exists bool, err error)

// Move gives a file or directory another path; see [rootfs.Root.Move]. From one root to another the file is copied, and
// then removed: whatever ends it in between, no content is lost. The copy has the rights of a new file. The function
// check can be asked more than once.
func (r *Reach) Move(from, to string, over bool, check func(Look) error) error {
	source, a, err := r.Writable(from)
	if err != nil {
		return err
	}
	target, b, err := r.Writable(to)
	if err != nil {
		return err
	}
	look := func(path string) ([]byte, bool, error) {
		root, p, err := r.At(path)
		if err != nil {
			return nil, false, err
		}
		data, err := root.ReadFile(p.Path, MaxMoved)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, rootfs.ErrNotRegular) {
			return nil, false, nil
		}
		return data, err == nil, err
	}
	if source == target {
		return a.Explain(source.Move(a.Path, b.Path, over, func() error { return check(look) }))
	}
	if err := check(look); err != nil {
		return err
	}
	data, err := source.ReadFile(a.Path, MaxMoved)
	if err != nil {
		return a.Explain(fmt.Errorf("move a file to another directory: %w", err))
	}
	if err := put(target, b, data, over, func() error { return check(look) }); err != nil {
		return b.Explain(err)
	}
	err = source.RemoveIf(a.Path, MaxMoved, func(old []byte, _ bool) error {
		if !bytes.Equal(old, data) {
			return errors.New("it was changed meanwhile: its earlier content is at the new path")
		}
		return nil
	})
	return a.Explain(err)
}

// put writes a file that was moved.
func put(target *rootfs.Root, p Place, data []byte, over bool, check func() error) error {
	if !over {
		return target.Create(p.Path, data)
	}
	return target.Update(p.Path, MaxMoved, func([]byte, bool) ([]byte, error) { return data, check() })
}
