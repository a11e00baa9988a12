package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
)

// maxVersion is the largest content that is kept, so that it can be put back.
const maxVersion = 4 << 20

// VersionStore keeps changes of files until they are undone, or old.
type VersionStore interface {
	Keep(ctx context.Context, v corebot.FileVersion) (id int64, err error)
	Drop(ctx context.Context, id int64) error
	Data(ctx context.Context, id int64) ([]byte, error)
	// Newest are the changes of a conversation that are kept, newest first, without their data.
	Newest(ctx context.Context, k corebot.Key) ([]corebot.FileVersion, error)
}

// Versions keep what tools for files change, and put it back. A change is stored before it is made: after a crash the
// contents tell whether it was made.
type Versions struct {
	reach *roots.Reach
	store VersionStore
}

// NewVersions keep changes of the files that an agent reaches.
func NewVersions(reach *roots.Reach, store VersionStore) *Versions { return &Versions{reach, store} }

// changed runs a call that may change a file, once what it takes to undo the change is stored. The change is made only
// to the file that was stored: if another turn has changed the file in between, both are done anew.
func (j *job) changed(ctx context.Context, args bound) (out output, err error) {
	for range maxRounds {
		id, call, err := j.keepVersion(ctx, args)
		if err != nil {
			return out, err
		}
		if out, err = args.run(ctx, call); err == nil || id == 0 {
			return out, err
		}
		if !errors.Is(err, ErrUnsettled) && ctx.Err() == nil { // otherwise it can have taken effect
			err = errors.Join(err, j.box.opts.Versions.store.Drop(ctx, id))
		}
		if !errors.Is(err, errNotTheSame) || j.call.Approved != "" {
			return out, err
		}
	}
	return out, errBusy
}

// errBusy ends a change that lost the race for its file each time.
var errBusy = errors.New("others change the file all the time; try again")

// keepVersion stores the change that a call is about to make. The call that it returns is bound to the stored content.
func (j *job) keepVersion(ctx context.Context, args bound) (id int64, call Call, err error) {
	call = j.call
	c := args.change(call)
	if j.box.opts.Versions == nil || c.Path == "" || !strings.HasPrefix(j.event.Tool, "fs.") {
		return 0, call, nil
	}
	v, known, err := j.box.opts.Versions.version(c)
	if err != nil || !known {
		return 0, call, err
	}
	v.Key, v.MessageID, v.Principal = call.Key, call.MessageID, call.Principal
	if v.Authored, err = j.box.opts.Versions.authored(ctx, call, c, v); err != nil {
		return 0, call, err
	}
	if id, err = j.box.opts.Versions.store.Keep(ctx, v); err != nil {
		return 0, call, fmt.Errorf("keep what is changed: %w", err)
	}
	if call.Approved == "" && !c.Dir && v.Before != corebot.NoContent {
		call.Approved = v.Before
	}
	if call.ApprovedFrom == "" && c.From != "" && strings.HasPrefix(v.After, hashed) {
		call.ApprovedFrom = v.After
	}
	return id, call, nil
}

// hashed begins the content of a plain file.
const hashed = "sha256:"

// version is what a change makes of a file, and what is there now. A change that will fail, or that changes nothing, is
// not known: the call itself says so.
func (s *Versions) version(c Change) (v corebot.FileVersion, known bool, err error) {
	root, p, err := s.reach.Writable(c.Path)
	if err != nil {
		return v, false, nil
	}
	v.Path = p.String()
	if v.Data, v.Before, v.Mode, err = look(root, p.Path); err != nil {
		return v, false, err
	}
	v.Lost = v.Data == nil && strings.HasPrefix(v.Before, hashed)
	below := p.Path
	if c.Dir {
		below = path.Join(p.Path, "x")
	}
	if top, err := root.MissingFrom(below); err == nil && top != "" {
		v.Made = roots.Place{Dir: p.Dir, Path: top}.String()
	}
	switch {
	case c.Dir:
		v.After = corebot.NoContent
		return v, v.Made != "" && v.Before == corebot.NoFile, nil
	case c.Deletes:
		v.After = corebot.NoFile
		return v, strings.HasPrefix(v.Before, hashed), nil
	case c.From != "":
		source, from, err := s.reach.Writable(c.From)
		if err != nil {
			return v, false, nil
		}
		v.From = from.String()
		_, v.After, _, err = look(source, from.Path)
		return v, err == nil && v.After != corebot.NoFile, err
	}
	data, err := c.Make(v.Data, v.Before != corebot.NoFile)
	v.After = contentOf(data, true)
	return v, err == nil && v.After != v.Before, nil
}

// look tells what is at a path: its content as [corebot.NamedFile] has it, the data unless there is too much, and the
// rights.
func look(root *rootfs.Root, clean string) (data []byte, content string, mode uint32, err error) {
	info, err := root.Stat(clean)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, rootfs.ErrNotDir):
		return nil, corebot.NoFile, 0, nil
	case err != nil:
		return nil, "", 0, err
	case !info.Mode().IsRegular():
		return nil, corebot.NoContent, 0, nil
	}
	mode = uint32(info.Mode().Perm())
	if data, err = root.ReadFile(clean, maxVersion); err == nil {
		return data, contentOf(data, true), mode, nil
	}
	if errors.Is(err, rootfs.ErrTooLarge) {
		sum, err := root.Hash(clean, maxBoundFile)
		if err == nil {
			return nil, fmt.Sprintf(hashed+"%x", sum), mode, nil
		}
		if errors.Is(err, rootfs.ErrTooLarge) {
			return nil, corebot.NoContent, mode, nil
		}
	}
	return nil, "", 0, err
}

// Conflict is why changes are not undone: something is not as they left it.
type Conflict struct{ Path, Why string }

func (e *Conflict) Error() string { return fmt.Sprintf("%s %s", corebot.Plainly(e.Path), e.Why) }

// Revert undoes changes, which come newest first, and says what it has done, in lines. It looks at all files before it
// changes one: if any is not as the changes left it, the error is a [*Conflict] and nothing has changed. A change that
// was never made, or is undone already, is passed over. So a Revert that was cut short can be repeated.
func (s *Versions) Revert(ctx context.Context, all []corebot.FileVersion) (done []string, err error) {
	pending, err := s.pending(all)
	if err != nil {
		return nil, err
	}
	for _, v := range pending {
		fault.Point("undo", "before")
		line, err := s.revert(ctx, v)
		if err != nil {
			return done, err
		}
		fault.Point("undo", "after")
		done = append(done, line)
	}
	for _, v := range all { // a Revert that was cut short can have left directories behind
		s.removeMade(v)
	}
	return done, nil
}

// pending are the changes that are still to be undone: all, or those behind the ones that an earlier Revert has undone.
func (s *Versions) pending(all []corebot.FileVersion) ([]corebot.FileVersion, error) {
	disk := map[string]string{}
	var first error
	for undone := range len(all) + 1 {
		todo, err := s.behind(all, undone, disk)
		if err == nil {
			return todo, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// behind are the changes to undo if the newest ones are undone already. The error is a [*Conflict] if the files do not
// look so.
func (s *Versions) behind(all []corebot.FileVersion, undone int, disk map[string]string) (todo []corebot.FileVersion,
	err error,
) {
	now := map[string]string{} // files that are not as they are on the disk
	for _, v := range all[:undone] {
		now[v.Path] = v.Before
		if v.From != "" {
			now[v.From] = v.After
		}
	}
	for path, want := range now {
		if is, err := s.content(path, disk); err != nil || is != want {
			return nil, cmp.Or(err, error(&Conflict{path, "has changed since"}))
		}
	}
	for _, v := range all[undone:] {
		made, err := s.wasMade(v, now, disk)
		if err != nil {
			return nil, err
		}
		if made {
			todo = append(todo, v)
			now[v.Path] = v.Before
			if v.From != "" {
				now[v.From] = v.After
			}
		}
	}
	return todo, nil
}

// wasMade says whether a change was made, and is not undone.
func (s *Versions) wasMade(v corebot.FileVersion, now, disk map[string]string) (bool, error) {
	is := func(path string) (string, error) {
		if content, known := now[path]; known {
			return content, nil
		}
		return s.content(path, disk)
	}
	at, err := is(v.Path)
	if err != nil {
		return false, err
	}
	from := corebot.NoFile
	if v.From != "" {
		if from, err = is(v.From); err != nil {
			return false, err
		}
	}
	switch {
	case v.From == "" && at == v.Before, v.From != "" && from == v.After && at == v.Before:
		return false, nil
	case halfMovedBack(v, at, from), copiedBack(v, at, from), at == v.After && from == corebot.NoFile:
	default:
		return false, &Conflict{v.Path, "has changed since"}
	}
	if v.Lost {
		return false, &Conflict{v.Path, fmt.Sprintf("was larger than %d MiB: its content was not kept", maxVersion>>20)}
	}
	return true, nil
}

// halfMovedBack: the file is in its old place, and the one that it had replaced is not back yet.
func halfMovedBack(v corebot.FileVersion, at, from string) bool {
	return v.From != "" && from == v.After && at == corebot.NoFile && v.Before != corebot.NoFile
}

// copiedBack: the file is in both places. A move to another directory copies it first, back too.
func copiedBack(v corebot.FileVersion, at, from string) bool {
	return v.From != "" && strings.HasPrefix(v.After, hashed) && at == v.After && from == v.After
}

// content is what is at a path on the disk.
func (s *Versions) content(path string, disk map[string]string) (string, error) {
	if content, known := disk[path]; known {
		return content, nil
	}
	root, p, err := s.reach.Writable(path)
	if err != nil {
		return "", &Conflict{path, "cannot be changed: " + err.Error()}
	}
	_, content, _, err := look(root, p.Path)
	if err != nil {
		return "", &Conflict{path, "cannot be read: " + err.Error()}
	}
	disk[path] = content
	return content, nil
}

// revert undoes one change.
func (s *Versions) revert(ctx context.Context, v corebot.FileVersion) (line string, err error) {
	root, p, err := s.reach.Writable(v.Path)
	if err != nil {
		return "", err
	}
	name, rights := corebot.Plainly(v.Path), fs.FileMode(v.Mode)
	is := func(old []byte, exists bool) error { return Call{Approved: v.After}.Unchanged(old, exists) }
	switch {
	case v.From != "":
		line = fmt.Sprintf("%s is at %s again", name, corebot.Plainly(v.From))
		err = s.moveBack(root, p.Path, v, is)
		if err == nil && strings.HasPrefix(v.Before, hashed) {
			line += ", and the file that it replaced is back"
			fault.Point("undo", "half")
			err = s.restore(ctx, v, func(data []byte) error { return root.Restore(p.Path, data, rights) })
		}
	case v.After == corebot.NoContent:
		line = name + ", a new directory, is gone"
	case v.Before == corebot.NoFile:
		line = name + ", a new file, is gone"
		err = root.RemoveIf(p.Path, maxBoundFile, is)
	case v.After == corebot.NoFile:
		line = name + " is back"
		err = s.restore(ctx, v, func(data []byte) error { return root.Restore(p.Path, data, rights) })
	default:
		line = name + " is as it was"
		err = s.restore(ctx, v, func(data []byte) error {
			return root.Update(p.Path, maxBoundFile, func(old []byte, exists bool) ([]byte, error) {
				return data, is(old, exists)
			})
		})
	}
	switch {
	case errors.Is(err, errNotTheSame), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return "", &Conflict{v.Path, "has changed since"}
	case err != nil:
		return "", err
	}
	fault.Point("undo", "content")
	if left := s.removeMade(v); left != "" && v.After == corebot.NoContent && v.From == "" {
		line = fmt.Sprintf("the directory %s stays, because something is in it", corebot.Plainly(left))
	}
	return line, nil
}

// moveBack gives a file its old place. It skips the part that an earlier attempt did.
func (s *Versions) moveBack(root *rootfs.Root, clean string, v corebot.FileVersion,
	is func(old []byte, exists bool) error,
) error {
	at, err := s.content(v.Path, map[string]string{})
	if err != nil || at == corebot.NoFile {
		return err
	}
	from, err := s.content(v.From, map[string]string{})
	if err != nil {
		return err
	}
	if copiedBack(v, at, from) {
		return root.RemoveIf(clean, maxBoundFile, is)
	}
	return s.reach.Move(v.Path, v.From, false, Call{ApprovedFrom: v.After}.Unmoved(v.Path, v.From))
}

// restore has put write the content that was there before.
func (s *Versions) restore(ctx context.Context, v corebot.FileVersion, put func(data []byte) error) error {
	data, err := s.store.Data(ctx, v.ID)
	if err != nil {
		return err
	}
	if contentOf(data, true) != v.Before {
		return &Conflict{v.Path, "was kept, and what was kept is damaged"}
	}
	return put(data)
}

// removeMade takes away the directories that a change made, as far as nothing is in them. It gives the first one that
// stays.
func (s *Versions) removeMade(v corebot.FileVersion) (stays string) {
	if v.Made == "" {
		return ""
	}
	root, p, err := s.reach.Writable(v.Path)
	made, err2 := s.reach.Find(v.Made)
	if err != nil || err2 != nil {
		return v.Made
	}
	dir := p.Path
	if v.After != corebot.NoContent || v.From != "" {
		dir = path.Dir(dir)
	}
	for ; rootfs.Within(dir, made.Path) && dir != "."; dir = path.Dir(dir) {
		if err := root.RemoveDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return roots.Place{Dir: p.Dir, Path: dir}.String()
		}
	}
	return ""
}
