package eventfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/sorted"
)

// remove deletes a file whose task is on disk. A file that was written anew meanwhile stays, and is another event.
func (d *Directory) remove(f found) error {
	name := filepath.Join(d.Path, f.name)
	if info, err := os.Lstat(name); err != nil || identityOf(info) != f.is {
		return nil
	}
	return os.Remove(name)
}

// freePlace is a path for a bad file at which nothing is. It leaves room for the name of the reason.
func freePlace(dir, name string) (string, error) {
	const longest = 200 // bytes; file systems take names of 255
	stem := runes.Head(strings.TrimSuffix(name, ".json"), longest)
	to := filepath.Join(dir, stem+".json")
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to, nil
		} else if err != nil {
			return "", err
		}
		to = filepath.Join(dir, stem+"."+strconv.Itoa(n)+".json")
	}
}

// reject moves a bad file away, with the reason beside it.
func (d *Directory) reject(f found, why error) error {
	to, err := freePlace(filepath.Join(d.Path, rejected), f.name)
	if err != nil {
		return &ofOne{why: fmt.Errorf("set a bad event file aside: %w", err)}
	}
	text := why.Error() + "\n"
	if hint := corebot.HintOf(why); hint != "" {
		text += "hint: " + hint + "\n"
	}
	if err := os.Rename(filepath.Join(d.Path, f.name), to); err != nil {
		return &ofOne{why: fmt.Errorf("set a bad event file aside: %w", err)}
	}
	d.files.WithLabelValues(rejected).Inc()
	d.Log.Warn().Str("file", f.name).Str("moved_to", to).Str("reason", strings.TrimSpace(text)).
		Msg("an event file is bad")
	return os.WriteFile(to+reason, []byte(text), 0o600)
}

// trim deletes the oldest bad files beyond those that are kept.
func (d *Directory) trim() error {
	dir := filepath.Join(d.Path, rejected)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= 2*keptRejected {
		return err
	}
	changed := func(e fs.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return identityOf(info).change
	}
	sorted.By(entries, func(a, b fs.DirEntry) int { return changed(a).Compare(changed(b)) })
	for _, e := range entries[:len(entries)-2*keptRejected] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
