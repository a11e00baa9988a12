package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
	"github.com/corebot/corebot/tools/isolation"
)

// senderRig is a workspace whose files are charged to senders, with a real database.
type senderRig struct {
	t       *testing.T
	dir     string
	notes   *notes
	senders *tools.SenderFiles
	store   *storage.DB
	charges *storage.FileCharges
	box     *tools.Box
	files   *tools.Files
}

// newSenderRig lets the files of a sender take a kibibyte in ten entries, besides what settings say.
func newSenderRig(t *testing.T, settings config.Tools) *senderRig {
	t.Helper()
	settings.SenderFilesBytes, settings.SenderFiles = 1_024, 10
	home := place{t.TempDir(), corebot.DefaultAgent}
	r := &senderRig{t: t, dir: home.workspace()}
	var err error
	r.notes, err = openWorkspace(home, chatQuota(settings), nil, zerolog.Nop())
	must(t, err)
	r.store, err = storage.Open(t.Context(), DataDir(filepath.Dir(r.dir)), storage.Options{})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.store.Run(ctx) }()
	workspace, err := os.OpenRoot(r.dir)
	must(t, err)
	t.Cleanup(func() {
		stop()
		<-ended
		must(t, errors.Join(r.store.Close(), r.notes.root.Close(), workspace.Close()))
	})
	r.charges = storage.NewFileCharges(r.store)
	grants := storage.NewGrants(r.store)
	must(t, grants.Grant(t.Context(), corebot.Grant{
		Principal: r.who("admin", "").Principal, Role: corebot.RoleAdmin,
		By: "test",
	}))
	r.senders = tools.NewSenderFiles(r.charges, grants, senderQuota(settings), zerolog.Nop())
	r.senders.Have(corebot.DefaultAgent, r.notes.root)
	all := builtin.Workspace(roots.Only(r.notes.root), r.notes.memory, nil)
	charged(all, r.senders)
	registry, err := tools.NewRegistry(all...)
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	r.box, err = tools.NewBox(registry, p, grants, tools.Options{})
	must(t, err)
	r.files, err = tools.NewFiles(roots.Only(r.notes.root), workspace, r.senders)
	must(t, err)
	return r
}

func (r *senderRig) who(sender, chat string) corebot.Caller {
	return corebot.Caller{
		Key:       corebot.Key{Agent: "main", Channel: "webhook", Chat: chat},
		Principal: corebot.Principal{Channel: "webhook", ID: sender},
	}
}

func (r *senderRig) call(who corebot.Caller, want corebot.AuditOutcome, says, tool string, args map[string]any) {
	r.t.Helper()
	raw, err := json.Marshal(args)
	must(r.t, err)
	res, err := r.box.Call(r.t.Context(), who, corebot.ToolCall{Tool: tool, Args: raw}, plain{})
	if must(r.t, err); res.Outcome != want || !strings.Contains(res.Content, says) {
		r.t.Errorf("%s: %s %s, want %s with %q", tool, res.Outcome, res.Content, want, says)
	}
}

// write has somebody write a file of so many bytes in a chat.
func (r *senderRig) write(who corebot.Caller, name string, size int, want corebot.AuditOutcome, says string) {
	r.t.Helper()
	r.call(who, want, says, "fs.write", map[string]any{
		"path":    rootfs.ChatDir(who.Key) + "/" + name,
		"content": strings.Repeat("x", size),
	})
}

func (r *senderRig) save(who corebot.Caller, name string, size int) (string, error) {
	return r.files.Save(r.t.Context(), who, name, strings.Repeat("x", size))
}

func (r *senderRig) wantCharged(who corebot.Caller, bytes int64) {
	r.t.Helper()
	if got, err := r.charges.Sum(r.t.Context(), who.Principal, who.Key); err != nil || got.Bytes != bytes {
		r.t.Errorf("%s is charged with %+v, %v; want %d bytes", who.Principal, got, err, bytes)
	}
}

const senderKey = "an operator raises tools.sender_files_bytes"

func TestTheFilesOfASenderHaveOneQuotaInAllChatsWhicheverToolWrites(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	a, b, bob := r.who("ann", "a"), r.who("ann", "b"), r.who("bob", "b")
	r.write(a, "f", 600, corebot.OutcomeSuccess, "")
	r.write(b, "f", 400, corebot.OutcomeSuccess, "")
	dir := rootfs.ChatDir(b.Key) + "/"
	long := strings.Repeat("x", 30)
	r.write(b, "g", 30, corebot.OutcomeError, senderKey)
	r.call(b, corebot.OutcomeError, senderKey, "fs.edit", map[string]any{
		"path": dir + "f",
		"old":  strings.Repeat("x", 400), "new": strings.Repeat("x", 430),
	})
	r.call(b, corebot.OutcomeError, senderKey, "memory.write", map[string]any{"scope": "chat", "content": long})
	r.wantCharged(a, 1_000)
	r.write(bob, "g", 900, corebot.OutcomeSuccess, "") // another sender, in the same chat
	r.wantCharged(bob, 900)
	r.write(a, "f", 100, corebot.OutcomeSuccess, "") // a shorter file gives its room back
	r.write(b, "g2", 500, corebot.OutcomeSuccess, "")
	r.wantCharged(a, 1_000)
	r.write(a, "1/2/3/4/5/6/7/8", 0, corebot.OutcomeError, "an operator raises tools.sender_files)")
}

func TestAdminsAndTheTerminalHaveNoQuotaAndAreChargedWithNothing(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	admin, ann := r.who("admin", "a"), r.who("ann", "a")
	r.write(admin, "f", 2_000, corebot.OutcomeSuccess, "")
	r.wantCharged(admin, 0)
	owner := r.who("501", "home")
	owner.Key.Channel, owner.Principal.Channel = cli.Channel, cli.Channel
	r.write(owner, "f", 2_000, corebot.OutcomeSuccess, "")
	r.write(ann, "g", 1_000, corebot.OutcomeSuccess, "") // what the admin wrote is not hers
	r.wantCharged(ann, 1_000)
	admin.Others = []corebot.Principal{ann.Principal}
	r.write(admin, "h", 1_100, corebot.OutcomeError, senderKey) // others speak through his turn
}

func TestSendersWithoutAnIDShareTheQuotaOfTheirChat(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	r.write(r.who("", "a"), "f", 1_000, corebot.OutcomeSuccess, "")
	r.write(r.who("", "b"), "f", 1_000, corebot.OutcomeSuccess, "")
	r.write(r.who("", "a"), "g", 100, corebot.OutcomeError, senderKey)
}

func TestASenderHasOneQuotaAtAllAgentsAndArtifactsOfAllMakeRoom(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	settings := config.Tools{SenderFilesBytes: 1_024, SenderFiles: 10}
	other := place{filepath.Dir(r.dir), "other"}
	n, err := openWorkspace(other, chatQuota(settings), nil, zerolog.Nop())
	must(t, err)
	t.Cleanup(func() { must(t, n.root.Close()) })
	workspace, err := os.OpenRoot(other.workspace())
	must(t, err)
	t.Cleanup(func() { must(t, workspace.Close()) })
	r.senders.Have("other", n.root)
	files, err := tools.NewFiles(roots.Only(n.root), workspace, r.senders)
	must(t, err)
	here, there := r.who("ann", "a"), r.who("ann", "a")
	there.Key.Agent = "other"
	first, err := r.save(here, "first", 300)
	must(t, err)
	r.write(here, "f", 400, corebot.OutcomeSuccess, "")
	_, err = files.Save(t.Context(), there, "second", strings.Repeat("x", 600)) // for which the first goes
	must(t, err)
	r.wantCharged(here, 1_000)
	if _, err := os.Stat(filepath.Join(r.dir, first)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first artifact: %v", err)
	}
	r.write(here, "g", 30, corebot.OutcomeError, senderKey)
}

func TestWhatIsDeletedByHandIsChargedToNobodyAMinuteLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSenderRig(t, config.Tools{})
		a, b := r.who("ann", "a"), r.who("ann", "b")
		r.write(a, "f", 600, corebot.OutcomeSuccess, "")
		r.write(b, "f", 400, corebot.OutcomeSuccess, "")
		must(t, os.RemoveAll(filepath.Join(r.dir, rootfs.ChatDir(a.Key))))
		r.write(b, "g", 500, corebot.OutcomeError, senderKey)
		time.Sleep(lookedAgain)
		r.write(b, "g", 500, corebot.OutcomeSuccess, "")
		r.wantCharged(b, 900)
	})
}

func TestAWorkerKeepsTheQuotaOfASender(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	t.Chdir(r.dir)
	a, b := r.who("ann", "a"), r.who("ann", "b")
	r.write(a, "f", 600, corebot.OutcomeSuccess, "")
	i := isolated{root: r.notes.root, quota: chatQuota(config.Tools{SenderFiles: 1})}
	i.workers = workersFunc(func(ctx context.Context, j isolation.Job) ([]byte, error) {
		text, err := runErrand(ctx, j.Input, nil) // in another process it has nothing but this
		if err != nil {
			return json.Marshal(outcome{Error: err.Error(), Hint: corebot.HintOf(err)})
		}
		return json.Marshal(outcome{Text: text})
	})
	run, err := i.work("fs.write")
	must(t, err)
	write := func(size int) error {
		return r.senders.Use(t.Context(), b, true, func(ctx context.Context) error {
			raw, err := json.Marshal(map[string]any{
				"path":    rootfs.ChatDir(b.Key) + "/f",
				"content": strings.Repeat("x", size),
			})
			must(t, err)
			_, err = run(ctx, raw)
			return err
		})
	}
	if err := write(500); err == nil || !strings.Contains(corebot.HintOf(err), senderKey) {
		t.Errorf("got %v (%s)", err, corebot.HintOf(err))
	}
	must(t, write(400))
	r.wantCharged(b, 1_000) // it was another process that wrote
}

func TestAProgramIsChargedOnceItHasEndedAndNoneStartsForASenderWithoutRoom(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	runner, err := isolation.New(r.dir, isolation.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, runner.Close()) })
	run := func(who corebot.Caller, writes int) error {
		return r.senders.Use(t.Context(), who, false, func(ctx context.Context) error {
			_, err := programs{runner, r.notes.root}.Run(ctx, builtin.Command{Key: who.Key, Argv: []string{"none"}})
			if errors.Is(err, rootfs.ErrFull) {
				return err
			}
			dir := filepath.Join(r.dir, rootfs.FilesDir(who.Key)) // as a program would have done
			return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), make([]byte, writes),
				0o600))
		})
	}
	a, b := r.who("ann", "a"), r.who("ann", "b")
	must(t, run(a, 1_100))
	r.wantCharged(a, 1_100)
	requireQuota(t, run(b, 1), "tools.sender_files_bytes")
}

// lookedAgain is when folders of a sender are measured again.
const lookedAgain = time.Minute

func TestTheOldestArtifactsOfASenderMakeRoomInAllHisChats(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	a, b, bob := r.who("ann", "a"), r.who("ann", "b"), r.who("bob", "a")
	past := time.Now().Add(-time.Hour)
	save := func(who corebot.Caller, name string, size int) string {
		t.Helper()
		path, err := r.save(who, name, size)
		must(t, err)
		past = past.Add(time.Minute)
		must(t, os.Chtimes(filepath.Join(r.dir, path), past, past))
		return path
	}
	theirs := save(bob, "old", 500)
	first := save(a, "first", 300)
	second := save(b, "second", 300)
	r.write(a, "people", 300, corebot.OutcomeSuccess, "")
	third := save(b, "third", 400)
	for path, stays := range map[string]bool{
		theirs: true, first: false, second: true, third: true,
		rootfs.ChatDir(a.Key) + "/people": true,
	} {
		if _, err := os.Stat(filepath.Join(r.dir, path)); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
	r.wantCharged(a, 1_000)
	r.wantCharged(bob, 500)
	if _, err := r.save(a, "huge", 800); !errors.Is(err, rootfs.ErrFull) ||
		!strings.Contains(corebot.HintOf(err), "sender_files_bytes") {
		t.Errorf("got %v", err)
	}
	r.wantCharged(a, 1_000) // nothing goes for what has no room at all
}

func TestCallsOfASenderAtTheSameTimeDoNotUseTheSameRoom(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	var all sync.WaitGroup
	for _, chat := range strings.Split("abcdefgh", "") {
		all.Go(func() { _, _ = r.save(r.who("ann", chat), "f", 500) })
	}
	all.Wait()
	sum, err := r.charges.Sum(t.Context(), r.who("ann", "").Principal, corebot.Key{})
	if must(t, err); sum.Bytes != 1_000 {
		t.Errorf("they are charged with %+v, want two of 500 bytes", sum)
	}
	var held int64
	must(t, filepath.WalkDir(filepath.Join(r.dir, rootfs.ChatsDir), func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, e := e.Info()
			must(t, e)
			held += info.Size()
		}
		return err
	}))
	if held != 1_000 {
		t.Errorf("the folders hold %d bytes", held)
	}
}

func TestDoctorNamesTheSendersWhoseFilesTakeNearlyAllTheyCan(t *testing.T) {
	r := newSenderRig(t, config.Tools{})
	home := filepath.Dir(r.dir)
	look := func() []Finding {
		return checkSenderFiles(t.Context(), home, config.Tools{SenderFilesBytes: 1_024, SenderFiles: 10})
	}
	r.write(r.who("ann", "a"), "f", 800, corebot.OutcomeSuccess, "")
	if got := look(); len(got) != 1 || got[0].Level != "ok" {
		t.Errorf("found %+v", got)
	}
	r.write(r.who("ann", "b"), "f", 100, corebot.OutcomeSuccess, "")
	r.write(r.who("", "b"), "1/2/3/4/5/6/7/f", 1, corebot.OutcomeSuccess, "")
	got := look()
	want := []string{
		"webhook::ann take 0 KiB in 2 entries, in 2 chats",
		"senders without an id in main:webhook::b take 0 KiB in 8 entries",
	}
	keys := []string{"raise tools.sender_files_bytes", "raise tools.sender_files"}
	if len(got) != len(want) {
		t.Fatalf("found %+v", got)
	}
	for i, f := range got {
		if f.Level != "warn" || !strings.Contains(f.What, want[i]) || !strings.HasSuffix(f.Hint, keys[i]) {
			t.Errorf("found %+v, want %q and %q", f, want[i], keys[i])
		}
	}
}
