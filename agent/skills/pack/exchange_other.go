//go:build !linux

package pack

import (
	"errors"
	"io/fs"
	"os"
)

func exchange(fresh, place string) error {
	err := os.Rename(fresh, place)
	if errors.Is(err, fs.ErrExist) || err != nil && isThere(place) {
		return inTurn(os.Rename, fresh, place)
	}
	return err
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
