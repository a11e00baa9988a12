// Package seedtest gives tests a new database without the time that making one takes: all migrations, which under the
// race detector are most of a second. Hundreds of tests begin with one.
package seedtest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// Seed is a file that is made once and put into many directories.
type Seed struct {
	name string
	file func() ([]byte, error)
}

// New is the seed of what make leaves in a directory under a name. It is made when it is first wanted.
func New(name string, make func(dir string) error) *Seed {
	return &Seed{name, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "corebot-seed-*")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // of a test
		if err := make(dir); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(dir, name))
	})}
}

// Put puts the file into a directory, made if it is missing, that has none of its name.
func (s *Seed) Put(dir string) error {
	content, err := s.file()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, s.name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	return err
}
