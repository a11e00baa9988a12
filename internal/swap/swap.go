// Package swap puts files and directories in the place of others: all of them, or none.
//
// Guarantees:
//
//   - A note of all moves is on disk before the first of them. After a crash or a power cut, [Finish] makes the moves
//     that are left. So a swap that has begun ends, and one that has not begun changes nothing.
//   - What was in the way is moved aside and never deleted.
//   - If a move fails, [Do] takes the earlier ones back.
//
// Limits: all paths are in one file system. The caller holds the lock of the directory from before [Do] or [Finish]
// until they return, and has synced what takes the places. Between a crash and [Finish] some places have the new and
// others the old: whoever opens one of them asks [Pending] first.
package swap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// noteName is the file in which a directory keeps a swap that is under way.
const noteName = "swap.json"

// Move is one exchange.
type Move struct {
	Fresh string `json:"fresh,omitempty"` // what takes the place; empty: nothing does
	Place string `json:"place"`
	Aside string `json:"aside"` // where what is in the place goes, if there is anything
}

// Pending says whether a swap of a directory has begun and not ended.
func Pending(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, noteName))
	return err == nil
}

// Do makes the moves. Its note is in dir; relative paths begin there.
func Do(dir string, moves []Move) error {
	moves = slices.DeleteFunc(slices.Clone(moves), func(m Move) bool {
		return m.Fresh == "" && !isThere(in(dir, m.Place))
	})
	for _, m := range moves {
		if err := prepare(dir, m); err != nil {
			return err
		}
	}
	text, err := json.Marshal(moves)
	if err != nil {
		return err
	}
	note := filepath.Join(dir, noteName)
	if err := writeSynced(note+".part", append(text, '\n')); err != nil {
		return fmt.Errorf("note the swap: %w", err)
	}
	fault.Point("swap", "before")
	if err := errors.Join(os.Rename(note+".part", note), syncDir(dir)); err != nil {
		return fmt.Errorf("note the swap: %w", err)
	}
	fault.Point("swap", "noted")
	if err := finish(dir, moves); err != nil {
		return errors.Join(err, undo(dir, moves))
	}
	return nil
}

// prepare makes the directories that a move needs, and refuses a move that would fail, before the first one is made.
func prepare(dir string, m Move) error {
	place, aside := in(dir, m.Place), in(dir, m.Aside)
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return fmt.Errorf("make room for %s: %w", place, err)
	}
	if m.Fresh != "" {
		if err := sameDisk(in(dir, m.Fresh), filepath.Dir(place)); err != nil {
			return fmt.Errorf("put %s in its place: %w", place, err)
		}
	}
	if !isThere(place) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(aside), 0o700); err != nil {
		return fmt.Errorf("make a place for what was there: %w", err)
	}
	if err := sameDisk(place, filepath.Dir(aside)); err != nil {
		return fmt.Errorf("move %s aside: %w", place, err)
	}
	return nil
}

// sameDisk refuses two paths that no rename can join. A link counts by itself.
func sameDisk(a, b string) error {
	var is [2]syscall.Stat_t
	for i, path := range []string{a, b} {
		if err := syscall.Lstat(path, &is[i]); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
	}
	if is[0].Dev != is[1].Dev {
		return corebot.WithHint(fmt.Errorf("%s and %s are on two disks", a, b),
			"unmount what is there, so that all of the home is on one disk; nothing was changed")
	}
	return nil
}

// Finish makes the moves that a crash has left. Without a swap it does nothing.
func Finish(dir string) error {
	note := filepath.Join(dir, noteName)
	text, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read which moves are left: %w", err)
	}
	var moves []Move
	if err := json.Unmarshal(text, &moves); err != nil { // it was written whole, so somebody has changed it
		return corebot.WithHint(fmt.Errorf("read which moves are left in %s: %w", note, err),
			"delete the file, and restore a backup")
	}
	return finish(dir, moves)
}

// finish makes each move that was not made yet, and deletes the note when all are on disk.
func finish(dir string, moves []Move) error {
	changed := map[string]bool{}
	for _, m := range moves {
		fresh, place, aside := in(dir, m.Fresh), in(dir, m.Place), in(dir, m.Aside)
		made := m.Fresh != "" && !isThere(fresh) || m.Fresh == "" && isThere(aside)
		if made {
			continue
		}
		if isThere(place) {
			if err := os.Rename(place, free(aside)); err != nil {
				return fmt.Errorf("move %s aside: %w", place, err)
			}
			fault.Point("swap", "aside")
		}
		if m.Fresh != "" {
			if err := os.Rename(fresh, place); err != nil {
				return fmt.Errorf("put %s in its place: %w", place, err)
			}
		}
		fault.Point("swap", "moved")
	}
	for _, m := range moves {
		changed[filepath.Dir(in(dir, m.Place))], changed[filepath.Dir(in(dir, m.Aside))] = true, true
	}
	for parent := range changed {
		if err := syncDir(parent); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, noteName)), syncDir(dir)); err != nil {
		return fmt.Errorf("end the swap: %w", err)
	}
	fault.Point("swap", "after")
	return nil
}

// undo takes back the moves that were made, and then the note of them.
func undo(dir string, moves []Move) error {
	for _, m := range slices.Backward(moves) {
		fresh, place, aside := in(dir, m.Fresh), in(dir, m.Place), in(dir, m.Aside)
		if m.Fresh != "" && !isThere(fresh) {
			if err := os.Rename(place, fresh); err != nil {
				return fmt.Errorf("take %s back: %w", place, err)
			}
		}
		if isThere(aside) && !isThere(place) {
			if err := os.Rename(aside, place); err != nil {
				return fmt.Errorf("put %s back: %w", place, err)
			}
		}
	}
	return os.Remove(filepath.Join(dir, noteName))
}

func in(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// free is the path itself, or one beside it where something is: a program can have made the place anew since the crash.
func free(path string) string {
	name := path
	for n := 2; isThere(name); n++ {
		name = path + "." + strconv.Itoa(n)
	}
	return name
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
