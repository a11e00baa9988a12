//go:build !linux

package rootfs

type watch struct{}

func (*watch) close() {}

// Mark is a moment from which the system notes changes. The zero Mark is none.
type Mark struct{}

// Watch has the system note changes in directories: on Linux only.
func (r *Root) Watch([]string) bool { return false }

// Mark is the zero Mark.
func (r *Root) Mark() Mark { return Mark{} }
