//go:build !linux

package storage

import (
	"errors"
	"os"
)

// allocate has no portable form: the caller writes the blocks.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
