package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

var (
	_ filestore.Refs      = (*storage.Attached)(nil)
	_ channels.FileKeeper = (*files)(nil)
	_ channels.FileOpener = (*files)(nil)
	_ llm.Blobs           = (*files)(nil)
	_ agent.Files         = placer{}
)

// files are the files of all chats: the bytes in data/files, the references in the database.
type files struct {
	*filestore.Store
	refs *storage.Attached

	copying sync.Mutex           // a copy for tools is whole in memory: one is made at a time
	failed  map[string]time.Time // copies for which there was no room, by path; guarded by copying
}

const (
	copyAgain = 10 * time.Minute // until a copy is tried again for which there was no room
	maxFailed = 1_000
)

var errNoRoom = errors.New("the folder of the chat, or its sender, has no room for a file")

// FilesDir is where a home keeps the bytes of files.
func FilesDir(home string) string { return filepath.Join(home, filepath.FromSlash(backup.FilesPath)) }

func newFiles(db *storage.DB, c config.Config, low func() string) *files {
	refs := storage.NewAttached(db)
	store := filestore.New(FilesDir(c.Home), refs, filestore.Options{
		FileBytes: c.Files.MaxBytes, ChatBytes: c.Files.ChatBytes, TotalBytes: c.Files.TotalBytes, Low: low,
	})
	return &files{refs: refs, failed: map[string]time.Time{}, Store: store}
}

// Had implements [channels.FileKeeper].
func (f *files) Had(ctx context.Context, k corebot.Key, id string) (bool, error) {
	return f.refs.Had(ctx, k, id)
}

// noteTime bounds how long the reference of a file is looked for.
const noteTime = 5 * time.Second

// noteOf is what a terminal shows of a file of a reply.
func (f *files) noteOf(k corebot.Key, p corebot.Part) string {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	file, ref, err := f.Open(ctx, k, p.Hash)
	if err != nil {
		return channels.Named(p, "is not kept")
	}
	defer file.Close() //nolint:errcheck // it was only looked at
	return channels.Named(p, sizeText(ref.Size)+": "+file.Name())
}

// FileProblems reads the files that a database refers to, and says which are missing or damaged.
func FileProblems(ctx context.Context, db *storage.DB, home string) ([]string, error) {
	return filestore.Problems(ctx, FilesDir(home), storage.NewAttached(db))
}

// placer gives the files of messages a place in the workspace of an agent.
type placer struct {
	*files
	app   *App
	agent string
}

func (f *files) placer(a *App, agent string) placer { return placer{f, a, agent} }

// Place implements [agent.Files]. Tools and programs read a copy in the folder of the chat, as any other file there. It
// takes room in that folder, on account of the caller.
func (p placer) Place(ctx context.Context, who corebot.Caller, parts []corebot.Part) []corebot.Part {
	placed := make([]corebot.Part, len(parts))
	for i, part := range parts {
		placed[i] = part
		placed[i].Text = p.place(ctx, who, part)
	}
	return placed
}

func (p placer) place(ctx context.Context, who corebot.Caller, part corebot.Part) string {
	if part.Hash == "" {
		if part.Text == "" {
			return "its content is not kept"
		}
		return part.Text
	}
	ref, err := p.refs.File(ctx, who.Key, part.Hash)
	switch {
	case errors.Is(err, corebot.ErrNotFound):
		return "its content is not kept any more"
	case err != nil:
		p.app.log.Warn().Err(err).Str("chat", who.Key.String()).Msg("the reference to a file cannot be read")
		return "its content cannot be read at the moment"
	case ref.Fault != "":
		return "its content is not kept: " + ref.Fault
	}
	path := placeOf(who.Key, part)
	size := sizeText(ref.Size)
	if part.Text != "" { // a transcript
		size = part.Text + "; " + size
	}
	if err := p.copy(ctx, who, path, part.Hash); err != nil {
		if errors.Is(err, errNoRoom) {
			return size + "; tools cannot read it: the folder of the chat, or its sender, has no room for it"
		}
		p.app.log.Warn().Err(err).Str("chat", who.Key.String()).Msg("a file has no copy for tools")
		return size + "; tools cannot read it at the moment"
	}
	return size + ", for tools the file " + path
}

// placeOf is where tools find a part of a message. The hash tells apart files of one name.
func placeOf(k corebot.Key, part corebot.Part) string {
	name := part.Name
	if name == "" {
		name = string(part.Type)
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return rootfs.FilesDir(k) + "/" + part.Hash[:8] + "-" + name
}

// copy makes the copy for tools, unless it is there.
func (p placer) copy(ctx context.Context, who corebot.Caller, path, hash string) error {
	u := p.app.agents.all[p.agent]
	if u == nil {
		return unknownAgent(p.agent)
	}
	root := u.notes.root
	if !root.Missing(path) {
		return nil
	}
	p.copying.Lock()
	defer p.copying.Unlock()
	if since, did := p.failed[path]; did && time.Since(since) < copyAgain {
		return errNoRoom
	}
	data, err := p.Blob(ctx, hash, p.app.config.Files.MaxBytes)
	if err != nil {
		return err
	}
	err = p.app.senders.Use(ctx, who, true, func(context.Context) error { return root.Create(path, data) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if full := (*rootfs.Full)(nil); errors.As(err, &full) {
		if len(p.failed) >= maxFailed {
			clear(p.failed)
		}
		p.failed[path] = time.Now()
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	return err
}

// transcriber is the service of llm.transcription; nil: there is none.
func (a *App) transcriber() agent.Transcriber {
	c := a.config.LLM.Transcription
	if c.BaseURL == "" {
		return nil
	}
	return openai.NewTranscriber(openai.Transcription{
		BaseURL: c.BaseURL, APIKey: c.APIKey.Reveal(), Model: c.Model, Timeout: c.Timeout, MaxBytes: c.MaxBytes,
		Open: func(ctx context.Context, k corebot.Key, hash string) (io.ReadCloser, int64, error) {
			f, ref, err := a.files.Open(ctx, k, hash)
			return f, ref.Size, err
		},
	})
}

// sizeText is a number of bytes for people and models.
func sizeText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", (n+512)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
