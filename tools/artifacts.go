package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/internal/sorted"
)

const (
	artifactsKept = 100               // files of one conversation; the oldest go first
	artifactsSeen = artifactsKept * 4 // names of a directory that are looked at
)

// Files keeps artifacts as files of the conversation's directory in the workspace, where policy closes them to every
// other conversation. It keeps a hundred for each. It also tells what is in files and directories that tools reach.
type Files struct {
	root      *rootfs.Root
	reach     *roots.Reach
	workspace *os.Root     // the same directory as root, for what no path of root can name
	senders   *SenderFiles // nil: senders have no limit
}

// NewFiles keeps artifacts in a workspace, which is given twice: as tools reach it, and as programs that work in it do.
// The caller closes both.
func NewFiles(reach *roots.Reach, workspace *os.Root, senders *SenderFiles) (*Files, error) {
	if reach == nil || reach.Workspace() == nil || workspace == nil {
		return nil, fmt.Errorf("%w: artifacts want a workspace", corebot.ErrInvalid)
	}
	return &Files{reach.Workspace(), reach, workspace, senders}, nil
}

// Save writes one artifact and takes away the oldest ones over the limit. Where the folder has no room, the oldest
// artifacts in it make room; where the sender has none in all chats together, the oldest of his do. Each is a copy of
// what a tool said, unlike the files of people.
func (f *Files) Save(ctx context.Context, who corebot.Caller, name, content string) (path string, err error) {
	u, err := f.senders.begin(ctx, who, true)
	if err != nil {
		return "", fmt.Errorf("save an artifact: %w", err)
	}
	defer u.end(ctx)
	dir := artifactsDir(who.Key)
	name = artifactPrefix(who.Principal) + name
	for range 3 { // the folder may have no room, and then the sender
		err = f.root.Write(dir+"/"+name, []byte(content))
		full := (*rootfs.Full)(nil)
		if !errors.As(err, &full) || !f.makeRoom(ctx, u, who, name, full) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("save an artifact: %w", err)
	}
	return dir + "/" + name, f.trim(dir)
}

func artifactsDir(k corebot.Key) string { return rootfs.ChatDir(k) + "/artifacts" }

// artifactPrefix begins the names of a sender's artifacts, in a chat of many too. Those of senders without an id have
// none.
func artifactPrefix(p corebot.Principal) string {
	if p.ID == "" {
		return ""
	}
	return p.Label() + "-"
}

func (f *Files) trim(dir string) error {
	entries, err := f.newestFirst(dir)
	if err != nil {
		return fmt.Errorf("trim the artifacts: %w", err)
	}
	return f.remove(dir, entries[min(len(entries), artifactsKept):])
}

func (f *Files) newestFirst(dir string) ([]rootfs.Entry, error) {
	entries, _, err := f.root.List(dir, "", artifactsSeen)
	entries = slices.DeleteFunc(entries, func(e rootfs.Entry) bool { return e.Dir })
	sorted.By(entries, func(a, b rootfs.Entry) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(a.Name, b.Name))
	})
	return entries, err
}

func (f *Files) remove(dir string, entries []rootfs.Entry) error {
	for _, e := range entries {
		if err := f.root.Remove(dir + "/" + e.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("trim the artifacts: %w", err)
		}
	}
	return nil
}

// kept is an artifact of a chat.
type kept struct {
	chat corebot.Key
	rootfs.Entry
}

// makeRoom removes the oldest artifacts but one, as many as something is over its limits by, and says whether it could.
// Where all artifacts are not enough, none is removed.
func (f *Files) makeRoom(ctx context.Context, u *fileUse, who corebot.Caller, but string, full *rootfs.Full) bool {
	all, held, err := f.candidates(ctx, u, who, full)
	defer func() {
		for _, h := range held {
			h.leave()
		}
	}()
	if err != nil {
		return false
	}
	all = slices.DeleteFunc(all, func(k kept) bool { return k.chat == who.Key && k.Name == but })
	sorted.By(all, func(a, b kept) int { return b.ModTime.Compare(a.ModTime) })
	bytes, count, from := full.OverBytes, full.OverCount, len(all)
	for from > 0 && (bytes > 0 || count > 0) {
		from--
		bytes, count = bytes-all[from].Size, count-1
	}
	if bytes > 0 || count > 0 {
		return false
	}
	for _, k := range all[from:] {
		if err := f.of(u, k.chat).remove(artifactsDir(k.chat), []rootfs.Entry{k.Entry}); err != nil {
			return false
		}
	}
	return full.Who == "" || u.settleOthers(ctx, held) == nil
}

// entered is a folder of another chat while artifacts are removed from it.
type entered struct {
	chat  corebot.Key
	held  rootfs.Usage
	leave func()
}

// candidates are the artifacts that can make room: those of the chat if its folder is full, otherwise those of the
// sender in all his chats. A chat whose folder another call uses is left out.
func (f *Files) candidates(
	ctx context.Context, u *fileUse, who corebot.Caller, full *rootfs.Full,
) (all []kept, others []entered, err error) {
	prefix := ""
	if full.Who != "" {
		prefix = artifactPrefix(who.Principal)
	}
	if all, err = f.artifactsOf(who.Key, prefix); err != nil || prefix == "" {
		return all, nil, err
	}
	chats, err := u.charges.Chats(ctx, who.Principal, lookChats)
	for _, k := range chats {
		if k == who.Key || u.rootOf(k) == nil {
			continue
		}
		leave, ok := u.tryEnter(rootfs.ChatDir(k))
		if !ok {
			continue
		}
		held, whole, e := u.rootOf(k).Usage(rootfs.ChatDir(k))
		more, e2 := f.of(u, k).artifactsOf(k, prefix)
		if cmp.Or(e, e2) != nil || !whole || len(more) == 0 {
			leave()
			continue
		}
		all, others = append(all, more...), append(others, entered{k, held, leave})
	}
	return all, others, err
}

// of are the artifacts of another chat, which may be another agent's.
func (f *Files) of(u *fileUse, k corebot.Key) *Files {
	if u == nil || u.who.Key.Agent == k.Agent {
		return f
	}
	return &Files{root: u.rootOf(k)}
}

// artifactsOf are the artifacts of a chat whose names begin so.
func (f *Files) artifactsOf(k corebot.Key, prefix string) (all []kept, err error) {
	entries, err := f.newestFirst(artifactsDir(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, prefix) {
			all = append(all, kept{k, e})
		}
	}
	return all, err
}

// settleOthers gives the sender the room back that removed artifacts leave in folders of other chats.
func (u *fileUse) settleOthers(ctx context.Context, others []entered) error {
	for _, o := range others {
		if err := u.settle(ctx, o.chat, u.who.Principal, o.held); err != nil {
			return err
		}
	}
	return u.share(ctx)
}

var _ Artifacts = (*Files)(nil)
