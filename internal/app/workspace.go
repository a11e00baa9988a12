package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/workspace"
)

// maxNote bounds each of the operator's texts: they ride in every prompt.
const maxNote = 64 << 10

// notes are the texts of a workspace directory, as the agent reads them.
type notes struct {
	root   *rootfs.Root
	texts  *rootfs.Cache // the operator's
	memory *memory.Store

	skills  *skills.Store
	hasTool func(name string) bool
}

// openWorkspace opens the directory, made if it is missing, and fills in the templates that it has no file for.
func openWorkspace(dir string) (*notes, error) {
	hint := fmt.Sprintf("%s must be a directory, or a link to one, that can be read and written; move away what is there", dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, corebot.WithHint(fmt.Errorf("make the workspace: %w", err), hint)
	}
	if err := apart(dir, filepath.Dir(dir), DataDir(filepath.Dir(dir))); err != nil {
		return nil, corebot.WithHint(fmt.Errorf("open the workspace: %w", err), fmt.Sprintf("let %s be a directory, or a link to one, that has nothing of Corebot's own in it", dir))
	}
	root, err := rootfs.New(dir)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("open the workspace: %w", err), hint)
	}
	store, err := memory.New(root, memory.Options{})
	if err == nil {
		err = workspace.Install(root)
	}
	if err != nil {
		return nil, errors.Join(corebot.WithHint(fmt.Errorf("fill the workspace: %w", err), hint), root.Close())
	}
	n := &notes{root: root, texts: rootfs.NewCache(root), memory: store}
	for _, read := range []func() (string, error){n.Identity, n.User, n.Tools, n.GlobalMemory} {
		if _, err := read(); err != nil { // every turn needs them: better said now than by each message
			err = corebot.WithHint(fmt.Errorf("read the workspace: %w", err), fmt.Sprintf("the texts of the prompt are plain files of at most %d KiB", maxNote>>10))
			return nil, errors.Join(err, root.Close())
		}
	}
	return n, nil
}

// apart refuses a directory, where it really is, that has one of others in it: whatever is in the workspace, tools may read and write.
func apart(dir string, others ...string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for _, other := range others {
		at, err := filepath.EvalSymlinks(other)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if rel, err := filepath.Rel(real, at); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%w: %s is a link to %s, which has %s in it", corebot.ErrInvalid, dir, real, other)
		}
	}
	return nil
}

// leftover is how old a temporary file must be to belong to a write that a crash cut off.
const leftover = time.Hour

// sweep takes away what crashes left in the workspace. What it cannot take away is no reason not to run.
func (n *notes) sweep(log zerolog.Logger) {
	removed, err := n.root.Sweep(time.Now().Add(-leftover))
	if err != nil {
		log.Warn().Err(err).Msg("sweep the workspace")
	}
	if removed > 0 {
		log.Info().Int("files", removed).Msg("swept what a crash left in the workspace")
	}
}

func (n *notes) Identity() (string, error)     { return n.read("IDENTITY.md") }
func (n *notes) User() (string, error)         { return n.read("USER.md") }
func (n *notes) Tools() (string, error)        { return n.read("TOOLS.md") }
func (n *notes) GlobalMemory() (string, error) { return n.memory.Read(memory.Global) }

func (n *notes) ChatMemory(k corebot.Key) (string, error) { return n.memory.Read(memory.Chat(k)) }

// read gives a text of the workspace; one that is missing is empty.
func (n *notes) read(name string) (string, error) {
	text, err := n.texts.Get(name, maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}
