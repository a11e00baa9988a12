package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/dirtree"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

// forgetter deletes conversations from the database and from the workspaces of a home.
type forgetter struct {
	db    *storage.DB
	home  string
	files *filestore.Store
	// programs gives those in the background; nil: there are none.
	programs func() *background.Set
	work     *live.Work // nil: no turn runs in this home
}

// noPrograms are the programs of a home that no Corebot runs.
func noPrograms() *background.Set { return nil }

// Meant implements [operate.Forgetter].
func (f forgetter) Meant(ctx context.Context, k corebot.Key) ([]corebot.Key, error) {
	return storage.NewForgetting(f.db).Meant(ctx, k)
}

// Contents implements [operate.Forgetter].
func (f forgetter) Contents(ctx context.Context, keys []corebot.Key) (all corebot.Forgotten, err error) {
	for _, k := range keys {
		has, err := storage.NewChats(f.db).Contents(ctx, k)
		if err != nil {
			return all, err
		}
		all = all.Add(has)
		folder, err := ChatFolder(f.home, k)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, err
		}
		err = fs.WalkDir(folder.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				all.Files++
			}
			return ctx.Err() // what cannot be looked at is deleted all the same
		})
		if err = errors.Join(err, folder.Close()); err != nil {
			return all, err
		}
	}
	return all, nil
}

// workEnds is how long a deletion waits for what runs in its chat. A tool has 5 s to return after it was asked to end.
const workEnds = 15 * time.Second

// endWork ends what runs for a conversation whose turns have all ended or lost their leases. It could write into the
// folder again after the deletion.
func (f forgetter) endWork(ctx context.Context, k corebot.Key) error {
	ctx, stop := context.WithTimeout(ctx, workEnds)
	defer stop()
	return corebot.WithHint(f.work.End(ctx, k, corebot.ErrLeaseLost),
		"try again later; a restart of Corebot ends what does not end by itself")
}

// Forget implements [operate.Forgetter]. The folders go before the rows: a deletion that was cut off is known by the
// rows that are left, and begun anew.
func (f forgetter) Forget(ctx context.Context, k corebot.Key) (gone corebot.Forgotten, err error) {
	forgetting := storage.NewForgetting(f.db)
	files, contents := int64(0), []string{}
	gone, err = forgetting.Chat(ctx, k, func(ctx context.Context, k corebot.Key) (err error) {
		if set := f.programs(); set != nil {
			set.Drop(k) // they write into the folder
		}
		if err := f.endWork(ctx, k); err != nil {
			return err
		}
		if contents, err = f.contents(ctx, k, contents); err != nil {
			return err
		}
		if err := f.forgetShared(ctx, k); err != nil {
			return fmt.Errorf("delete what %s wrote for other chats: %w", k, err)
		}
		n, err := f.removeFolder(ctx, k)
		if files += n; err != nil {
			return fmt.Errorf("delete the folder of %s: %w", k, err)
		}
		return nil
	})
	if errors.Is(err, corebot.ErrNotFound) { // an earlier deletion can have been cut off before its end
		_, scrubbed := forgetting.Overwrite(ctx)
		return gone, errors.Join(err, scrubbed)
	}
	if gone.Files += files; err != nil {
		return gone, err
	}
	if err := f.files.Release(ctx, contents); err != nil {
		return gone, fmt.Errorf("delete the files of %s: %w", k, err)
	}
	gone.Pages, err = forgetting.Overwrite(ctx)
	return gone, err
}

// contents adds the hashes of the files that a conversation refers to.
func (f forgetter) contents(ctx context.Context, k corebot.Key, all []string) ([]string, error) {
	const page = 500
	for after := ""; ; {
		hashes, err := storage.NewAttached(f.db).OfChat(ctx, k, after, page)
		if all = append(all, hashes...); err != nil || len(hashes) < page {
			return all, err
		}
		after = hashes[page-1]
	}
}

// ChatFolder opens the folder of a conversation in its agent's workspace. Without one it is [fs.ErrNotExist].
func ChatFolder(home string, k corebot.Key) (*os.Root, error) {
	root, err := os.OpenRoot(place{home, k.Agent}.workspace())
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	return root.OpenRoot(rootfs.ChatDir(k))
}

// removeFolder deletes the folder of a conversation in its agent's workspace, and counts its files. Programs have made
// what is in there: any name, any depth, links, and directories without rights.
func (f forgetter) removeFolder(ctx context.Context, k corebot.Key) (files int64, err error) {
	root, err := os.OpenRoot(place{f.home, k.Agent}.workspace())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer root.Close() //nolint:errcheck // only read
	files, err = dirtree.Remove(ctx, root, rootfs.ChatDir(k))
	if k.Thread == "" { // a thread has the skills of its chat
		_, skills := dirtree.Remove(ctx, root, rootfs.ScopedSkills(k))
		err = errors.Join(err, skills)
	}
	return files, err
}

// forgetShared deletes the lines that turns of a conversation wrote into pages of memory that several chats share.
func (f forgetter) forgetShared(ctx context.Context, k corebot.Key) error {
	err := home{f.home, f.db}.remembering(k.Agent, func(s *memory.Store) error {
		_, ofChannel := s.ForgetChat(ctx, k.InChannel(), k)
		_, ofAgent := s.ForgetChat(ctx, k.OfAgent(), k)
		return errors.Join(ofChannel, ofAgent)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Reindex implements [operate.Forgetter].
func (f forgetter) Reindex(ctx context.Context, vectors bool) (int64, error) {
	if vectors {
		if err := storage.NewVectors(f.db, storage.VectorOptions{}).Renew(ctx); err != nil {
			return 0, err
		}
	}
	index, err := storage.NewSearchIndex(f.db, storage.SearchIndexOptions{})
	if err != nil {
		return 0, err
	}
	return index.Renew(ctx)
}
