package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
	"github.com/corebot/corebot/workspace"
)

// place is where an agent of a home keeps what is its own.
type place struct{ home, agent string }

// dir is the home itself for the agent main, and agents/ID for every other.
func (p place) dir() string {
	if p.agent == corebot.DefaultAgent {
		return p.home
	}
	return filepath.Join(p.home, "agents", p.agent)
}

// Workspace is the directory of an agent's workspace in a home.
func Workspace(home, agent string) string { return place{home, agent}.workspace() }

func (p place) workspace() string { return filepath.Join(p.dir(), "workspace") }

// globalMemory is the page that every chat of the agent reads.
func (p place) globalMemory() string {
	return filepath.Join(p.workspace(), filepath.FromSlash(string(memory.Global)))
}

// mcpFile lists the agent's MCP servers: a file of its own, if it has one, else that of the home.
func (p place) mcpFile() string {
	own := filepath.Join(p.dir(), mcp.FileName)
	if _, err := os.Lstat(own); err == nil {
		return own
	}
	return MCPFile(p.home)
}

// places are those of all agents of the settings.
func places(c config.Config) (all []place) {
	for _, a := range c.AgentList() {
		all = append(all, place{c.Home, a.ID})
	}
	return all
}

// notes are the texts of a workspace directory, as the agent reads them.
type notes struct {
	root   *rootfs.Root
	pages  *pages.Store
	memory *memory.Store
	log    zerolog.Logger

	skills   *skills.Store
	registry *tools.Registry // of the agent's tools; nil while they are made
}

// tool is a tool of the agent as it is now.
func (n *notes) tool(name string) (tools.Tool, bool) { return n.registry.Tool(name) }

func (n *notes) hasTool(name string) bool {
	_, has := n.tool(name)
	return has
}

// pageLimit is how large tools may make a file of the workspace, in bytes. Files that stand in prompts have a limit.
// Zero means no limit.
func pageLimit(path string) int64 {
	folded := rootfs.Fold(path)
	dir, name, _ := strings.Cut(folded, "/")
	switch {
	case folded == rootfs.Fold(string(memory.Global)):
		return memory.DefaultMaxBytes
	case folded == rootfs.Fold(workspace.Heartbeat),
		slices.ContainsFunc(workspace.Pages(), func(p string) bool { return rootfs.Fold(p) == folded }):
		return pages.MaxBytes
	case dir == rootfs.ChatsDir && strings.Count(name, "/") == 1 &&
		strings.HasSuffix(name, "/"+rootfs.Fold(memory.FileName)):
		return memory.DefaultMaxBytes
	case dir == skills.Dir && (strings.Count(name, "/") == 1 || rootfs.InScopedSkills(path)) &&
		strings.HasSuffix(name, "/"+rootfs.Fold(skills.FileName)):
		return skills.MaxFile
	}
	return 0
}

// chatQuota is what the folder of one chat can hold.
func chatQuota(t config.Tools) rootfs.Quota {
	return rootfs.Quota{
		Dir: rootfs.ChatsDir, Bytes: t.ChatFilesBytes, Entries: t.ChatFiles,
		BytesKey: "tools.chat_files_bytes", EntriesKey: "tools.chat_files",
		Shared: t.SenderFilesBytes > 0 || t.SenderFiles > 0,
	}
}

// senderQuota is what the turns of one sender can add to the folders of all chats together.
func senderQuota(t config.Tools) tools.SenderQuota {
	return tools.SenderQuota{
		Bytes: t.SenderFilesBytes, Entries: t.SenderFiles, BytesKey: "tools.sender_files_bytes",
		EntriesKey: "tools.sender_files",
		Owner:      ownersChannel(),
	}
}

// charged has the files that tools write be charged to the senders of the turns. A program may take long: it keeps no
// other call of its sender waiting.
func charged(all []tools.Tool, s *tools.SenderFiles) {
	if s == nil {
		return
	}
	for i, t := range all {
		alone := t.Name() != builtin.ShellExec
		all[i] = t.Within(func(ctx context.Context, who corebot.Caller, do func(context.Context) error) error {
			return s.Use(ctx, who, alone, do)
		})
	}
}

// openWorkspace opens an agent's workspace, made if it is missing, and fills in the templates that it has no file for.
// A template that has no place there, and a page that cannot be shown, are logged: the rest of Corebot works without
// them.
func openWorkspace(p place, q rootfs.Quota, from memory.Sources, log zerolog.Logger) (*notes, error) {
	dir := p.workspace()
	hint := fmt.Sprintf(
		"%s must be a directory, or a link to one, that can be read and written; move away what is there", dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, corebot.WithHint(fmt.Errorf("make the workspace: %w", err), hint)
	}
	if err := apart(dir, p.home, DataDir(p.home)); err != nil {
		return nil, corebot.WithHint(fmt.Errorf("open the workspace: %w", err),
			fmt.Sprintf("let %s be a directory, or a link to one, that has nothing of Corebot's own in it", dir))
	}
	n, err := readWorkspace(dir, q, from, log)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("open the workspace: %w", err), hint)
	}
	if err := workspace.Install(n.root); err != nil {
		log.Warn().Err(err).Str("hint", hint).Msg("a template has no place in the workspace")
	}
	n.pages.Faults()
	return n, nil
}

// readWorkspace opens a directory that is there.
func readWorkspace(dir string, q rootfs.Quota, from memory.Sources, log zerolog.Logger) (*notes, error) {
	root, err := rootfs.NewBounded(dir, pageLimit, q)
	if err != nil {
		return nil, err
	}
	n := &notes{root: root, log: log}
	if n.pages, err = pages.New(root, log, workspace.Pages()...); err == nil {
		n.memory, err = memory.New(root, memory.Options{Sources: from})
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return n, nil
}

// apart refuses a directory, where it really is, that has one of others in it: whatever is in the workspace, tools may
// read and write.
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

// sweep removes what crashes left in the workspace. A file that it cannot remove is no reason not to run.
func (n *notes) sweep(log zerolog.Logger) {
	removed, err := n.root.Sweep(time.Now().Add(-leftover))
	if err != nil {
		log.Warn().Err(err).Msg("sweep the workspace")
	}
	if removed > 0 {
		log.Info().Int("files", removed).Msg("swept what a crash left in the workspace")
	}
}

func (n *notes) Page(path string) pages.Page { return n.pages.Glance(path) }

// Renew implements [agent.Notes]. It leaves the skills out: they can be 256 files, and conversations begin often.
func (n *notes) Renew() { n.pages.Renew() }

// renewAll has the next turn look at everything that its prompt is made of.
func (n *notes) renewAll() {
	n.pages.Renew()
	n.skills.Renew()
}

func (n *notes) ChatMemory(ctx context.Context, k corebot.Key) (pieces []memory.Piece, leftOut string) {
	page := n.pages.Read(string(memory.Of(k)))
	if page.Text == "" {
		return nil, page.LeftOut
	}
	pieces, _, err := n.memory.Pieces(ctx, k)
	if err != nil {
		n.log.Warn().Err(err).Str("chat", k.String()).Msg("a turn goes without the memory of its chat")
		return nil, "it cannot be read"
	}
	for i := range pieces {
		pieces[i].Text = redact.Visible(pieces[i].Text)
	}
	return pieces, page.LeftOut
}

// remembered is what chats remember, for /memory.
type remembered struct {
	*storage.Facts
	a *App
}

// Pieces implements [router.Remembered].
func (r remembered) Pieces(ctx context.Context, k corebot.Key) ([]memory.Piece, bool, error) {
	u, err := r.a.agents.named(k.Agent)
	if err != nil {
		return nil, false, err
	}
	return u.notes.memory.Pieces(ctx, k)
}

// DropLines implements [router.Remembered].
func (r remembered) DropLines(ctx context.Context, k corebot.Key, goes func(memory.Piece, string) bool) (int, error) {
	u, err := r.a.agents.named(k.Agent)
	if err != nil {
		return 0, err
	}
	return u.notes.memory.DropLines(ctx, k, goes)
}

// ForgetFor implements [router.Remembered].
func (r remembered) ForgetFor(ctx context.Context, by corebot.AuditEvent, k corebot.Key, ids []int64,
	may func(corebot.Fact) bool,
) (int, error) {
	return r.As(by).Forget(ctx, k, ids, may)
}

// wrong says what prompts are without, in one line; empty: nothing.
func (n *notes) wrong() string {
	var all []string
	for _, f := range n.pages.Faults() {
		all = append(all, f.What)
	}
	all = append(all, n.skills.Wrong()...)
	if more := len(all) - saidFaults; more > 0 {
		all = append(all[:saidFaults], fmt.Sprintf("and %d more: `corebot doctor` has them", more))
	}
	return strings.Join(all, "; ")
}

// saidFaults is how many faults of pages the status names.
const saidFaults = 5

// checkedChats is how many conversations' pages are looked at by [checkPages].
const checkedChats = 2_000

// checkPages looks for pages of a workspace that prompts are without, those of conversations included.
func checkPages(p place) []Finding {
	n, err := readWorkspace(p.workspace(), rootfs.Quota{}, nil, zerolog.Nop())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []Finding{fail("the workspace", err)}
	}
	defer n.root.Close() //nolint:errcheck // only read
	chats, more, err := n.root.List(rootfs.ChatsDir, "", checkedChats)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Finding{fail("the workspace", err)}
	}
	for _, chat := range slices.DeleteFunc(chats, func(e rootfs.Entry) bool { return !e.Dir }) {
		n.pages.Read(rootfs.ChatsDir + "/" + chat.Name + "/" + memory.FileName)
	}
	var findings []Finding
	for _, f := range n.pages.Faults() {
		findings = append(findings, warn(f.Hint, "%s", f.What))
	}
	if more > 0 {
		findings = append(findings, ok("the memories of %d chats more were not looked at", more))
	}
	if len(findings) == 0 {
		findings = append(findings, ok("the pages of the prompt can be read"))
	}
	return findings
}

// openRoots are the directories of tools.roots. The error names one that cannot be open, to tools or in a sandbox.
func openRoots(c config.Config) (roots.List, error) {
	user, err := os.UserHomeDir()
	if err != nil {
		user = "" // a service may have none: then nothing is called ~
	}
	var dirs []roots.Dir
	for _, r := range c.Tools.Roots.List() {
		dirs = append(dirs, roots.Dir{Path: r.Path, Write: r.Mode == config.RootWrite})
	}
	list, err := roots.NewList(user, dirs, closedPaths(c)...)
	if err == nil && c.Tools.Shell.Runs() == config.ShellSandbox {
		if err = isolation.CheckMounts(mountsOf(list)); err != nil {
			err = fmt.Errorf("tools.roots: %w", err)
		}
	}
	if err != nil && corebot.HintOf(err) == "" {
		err = corebot.WithHint(err, "change tools.roots")
	}
	return list, err
}

// closedPaths are the paths that no directory of tools.roots reaches: the home, the database, its backups and the
// workspaces. The database can be on another disk, and workspaces can be links.
func closedPaths(c config.Config) []string {
	closed := []string{c.Home, DataDir(c.Home), backupDir(c)}
	for _, p := range places(c) {
		closed = append(closed, p.workspace())
	}
	return closed
}

// checkRoots shows the directories of tools.roots, and those that are not there.
func checkRoots(c config.Config) (findings []Finding) {
	list, err := openRoots(c)
	if err != nil {
		return nil // said of the settings already
	}
	disk := roots.NewDisk(list, closedPaths(c)...)
	defer disk.Close() //nolint:errcheck // only read
	for _, d := range list.Dirs() {
		how := "reading"
		if d.Write {
			how = "reading and writing"
		}
		switch err := disk.Check(d); {
		case errors.Is(err, roots.ErrMissing):
			findings = append(findings, warn(corebot.HintOf(err), "tools.roots: %v", err))
		case err != nil:
			findings = append(findings, fail("tools.roots", err))
		default:
			findings = append(findings, ok("tools reach %s for %s", d.Path, how))
		}
	}
	return findings
}

// checkVersions says how much is kept for /undo.
func checkVersions(ctx context.Context, home string, t config.Tools) []Finding {
	if t.Versions == 0 {
		return []Finding{ok("no change of a file can be undone (tools.versions)")}
	}
	db, err := storage.OpenReader(ctx, DataDir(home))
	if err != nil {
		return nil // said of the database already
	}
	defer db.Close() //nolint:errcheck // only read
	count, bytes, err := storage.NewVersions(db, corebot.VersionLimits{}).Usage(ctx)
	if err != nil {
		return []Finding{fail("what is kept for /undo", err)}
	}
	return []Finding{ok("%d changes of files can be undone; their contents take %d KiB", count, bytes>>10)}
}
