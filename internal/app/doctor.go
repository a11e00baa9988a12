package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/witness"
	"github.com/corebot/corebot/storage"
)

// Finding is one thing that was looked at.
type Finding struct {
	Level string `json:"level"` // "ok", "warn" or "fail"
	What  string `json:"what"`
	Hint  string `json:"hint,omitempty"`
}

func ok(format string, args ...any) Finding {
	return Finding{Level: "ok", What: fmt.Sprintf(format, args...)}
}

func warn(hint, format string, args ...any) Finding {
	return Finding{Level: "warn", What: fmt.Sprintf(format, args...), Hint: hint}
}

func fail(what string, err error) Finding {
	return Finding{Level: "fail", What: fmt.Sprintf("%s: %v", what, err), Hint: corebot.HintOf(err)}
}

// Diagnose looks at a home and at what it depends on. It changes nothing, and works beside a running Corebot.
func Diagnose(ctx context.Context, home string) []Finding {
	findings := []Finding{checkHome(home)}
	c, err := LoadConfig(home)
	if err != nil {
		return append(findings, fail("settings", err))
	}
	valid := ok("the settings are valid")
	if err := Check(c); err != nil {
		valid = fail("settings", err)
	}
	findings = append(findings, valid, checkDisk(home, c.Storage.DiskFloor), checkDaemon(ctx, home))
	findings = append(findings, checkDatabase(ctx, home), checkAuditKey(home))
	findings = append(findings, checkConsole(ctx, c)...)
	findings = append(findings, checkSenderFiles(ctx, home, c.Tools)...)
	findings = append(findings, checkRoots(c)...)
	findings = append(findings, checkVersions(ctx, home, c.Tools)...)
	findings = append(findings, checkWeb(ctx, c.Tools.Web)...)
	findings = append(findings, checkEmbeddings(ctx, c.LLM.Embeddings)...)
	findings = append(findings, checkWorkers(ctx, c)...)
	findings = append(findings, checkMCPFiles(ctx, c)...)
	findings = append(findings, checkNetworks(c)...)
	findings = append(findings, checkDrafts(ctx, home, c)...)
	findings = append(findings, checkConnections(ctx, home)...)
	for _, p := range places(c) {
		findings = append(findings, checkPages(p)...)
	}
	for _, entry := range c.AgentList() {
		findings = append(findings, checkSkills(ctx, c, entry)...)
	}
	return append(findings, checkModels(ctx, c)...)
}

func checkHome(home string) Finding {
	info, err := os.Stat(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := Writable(home); err != nil {
			return fail("the home", err)
		}
		return warn("`corebot init` makes it; so does any other start", "the home %s does not exist yet", home)
	case err != nil:
		return fail("the home", err)
	case !info.IsDir():
		return fail("the home", fmt.Errorf("%s is not a directory", home))
	case unix.Access(home, unix.W_OK) != nil:
		return fail("the home", corebot.WithHint(fmt.Errorf("%s cannot be written", home),
			"choose another with --home or COREBOT_HOME"))
	case info.Mode().Perm()&0o077 != 0:
		return warn("chmod 700 "+home, "the home %s can be looked into by other users", home)
	}
	return ok("the home is %s", home)
}

// checkAuditKey looks at the key that signs the heads of the audit trail. It makes none.
func checkAuditKey(home string) Finding {
	key, err := witness.Look(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok("the audit trail has no key yet: `corebot serve` makes one")
	case err != nil:
		return fail("the audit trail", err)
	}
	return ok("the key %s signs the heads of the audit trail", key.ID)
}

// checkDisk holds the disk to the floor that a running Corebot keeps. A home that does not exist yet will be on the
// disk of the directory that it is made in.
func checkDisk(home string, floor int64) Finding {
	dir := DataDir(home)
	disk, err := storage.DiskAt(dir)
	for err != nil && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		disk, err = storage.DiskAt(dir)
	}
	if err != nil {
		return fail("the disk", err)
	}
	if least := disk.Floor(floor); disk.Free < least {
		return warn("make room: new messages are refused until then (storage.disk_floor)",
			"the disk has %d MiB free, under its floor of %d MiB", disk.Free>>20, least>>20)
	}
	return ok("the disk has %d MiB free", disk.Free>>20)
}

// unreadTask says which task cannot be read. Reminders of it never come, and nothing else shows that.
func unreadTask(ctx context.Context, db *storage.DB) error {
	for after := ""; ; {
		tasks, next, err := storage.NewTasks(db).Page(ctx, corebot.TaskFilter{}, after, operate.MaxRows)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if task.Damaged != nil {
				return fmt.Errorf("task %d: %w", task.ID, task.Damaged)
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

func checkDaemon(ctx context.Context, home string) Finding {
	_, running, err := control.Dial(ctx, DataDir(home))
	switch {
	case err != nil:
		return fail("the running Corebot", err)
	case running:
		return ok("a Corebot runs on this home")
	}
	return ok("no Corebot runs on this home now")
}

// checkConnections looks at the accounts of a running Corebot.
func checkConnections(ctx context.Context, home string) (findings []Finding) {
	daemon, running, err := control.Dial(ctx, DataDir(home))
	if err != nil || !running {
		return nil // another finding says so
	}
	for after := ""; ; {
		page, err := operate.ListChannels.Call(ctx, daemon, operate.Part{After: after})
		if err != nil {
			return append(findings, fail("the accounts of the running Corebot", err))
		}
		for _, c := range page.Rows {
			switch channels.State(c.State) {
			case channels.Failed:
				findings = append(findings, warn("`corebot channels check "+c.Name()+"` says what mends it",
					"%s fails: %s", c.Name(), c.LastError))
			case operate.AccountLeft:
				findings = append(findings, warn(
					"put the account back into the settings, or delete its chats with `corebot chats delete`",
					"%s is not in the settings any more, and %d messages for it wait", c.Name(), c.Backlog))
			case channels.Ended:
				if c.LastError == "" {
					continue // it was done
				}
				findings = append(findings, warn("correct its settings and start Corebot again", "%s has ended: %s",
					c.Name(), c.LastError))
			}
		}
		if after = page.Next; after == "" {
			return findings
		}
	}
}

func checkDatabase(ctx context.Context, home string) Finding {
	db, err := storage.OpenReader(ctx, DataDir(home))
	if errors.Is(err, fs.ErrNotExist) {
		return ok("there is no database yet; the first start makes it")
	}
	if err != nil {
		return fail("the database", err)
	}
	defer db.Close() //nolint:errcheck // only read
	if err := cmp.Or(storage.CheckLog(DataDir(home)), db.SharedDamage(ctx)); err != nil {
		return fail("the database", err)
	}
	s, err := figures{db, accountingOf(home)}.Status(ctx)
	if err != nil {
		return fail("the database", err)
	}
	if len(s.SetAside) > 0 || len(s.Unread) > 0 {
		return fail("the database", corebot.WithHint(damage(s), "`corebot db check` says more; put back the newest "+
			"file of data/backups, or have the chats go on with `corebot dlq give-up LANE`"))
	}
	if err := unreadTask(ctx, db); err != nil {
		return fail("the tasks", corebot.WithHint(err, "`corebot tasks list` names them, `corebot db check` says "+
			"more; `corebot db restore` with the newest backup brings them back, and loses what came after it"))
	}
	dead := s.DeadLetters[corebot.Inbound.String()] + s.DeadLetters[corebot.Outbound.String()]
	if dead > 0 {
		return warn("`corebot dlq list` shows them", "the database can be read; %d messages are dead letters", dead)
	}
	return ok("the database can be read (schema %d)", storage.SchemaVersion())
}

// damage says what of a database cannot be read.
func damage(s operate.Status) error {
	var parts []string
	for _, a := range s.SetAside {
		parts = append(parts, fmt.Sprintf("the next message of %s (lane %d)", a.Chat, a.Lane))
	}
	parts = append(parts, slices.Sorted(maps.Keys(s.Unread))...)
	const told = 5
	if more := len(parts) - told; more > 0 {
		parts = append(parts[:told], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("it cannot be read in places: %s", strings.Join(parts, ", "))
}

// modelTime is how long the model may take to say a word.
const modelTime = 20 * time.Second

// checkModels has every model that may be asked say a word: the only way to know that address, key and name are right.
func checkModels(ctx context.Context, all config.Config) []Finding {
	c := all.LLM
	chosen, err := chooseModel(ctx, c, nil, nil)
	if err != nil {
		return []Finding{fail("the model", err)}
	}
	findings, err := checkContexts(all, chosen)
	if err != nil {
		return []Finding{fail("the models of an agent", err)}
	}
	if len(c.Providers.List()) == 0 || c.Offline {
		return append(findings, checkModel(ctx, chosen.model, "the model", chosen.why))
	}
	for _, p := range chosen.each {
		for _, m := range p.Models {
			findings = append(findings, checkModel(ctx, m, "the model of "+p.Name, "one of llm.providers"))
		}
	}
	return findings
}

// checkContexts says how large a prompt can be. Agents whose models differ in this are told one by one: a prompt has to
// fit all the models that its agent may ask, and no others.
func checkContexts(c config.Config, chosen choice) ([]Finding, error) {
	of, differ, agents := map[string][]Finding{}, false, c.AgentList()
	for _, entry := range agents {
		own, err := chosen.of(entry)
		if err != nil {
			return nil, err
		}
		context, known := contextFor(own, c.LLM)
		of[entry.ID] = []Finding{checkRoom(c, own), ok("a prompt and its answer have %d tokens together (%s)", context,
			knownAs(known))}
		differ = differ || !slices.Equal(of[entry.ID], of[agents[0].ID])
	}
	if !differ {
		return of[agents[0].ID], nil
	}
	var all []Finding
	for _, entry := range agents {
		for _, f := range of[entry.ID] {
			f.What = "agent " + entry.ID + ": " + f.What
			all = append(all, f)
		}
	}
	return all, nil
}

// knownAs says where the size of the context comes from.
func knownAs(known bool) string {
	if known {
		return "llm.context_tokens, or what the model is known for"
	}
	return "an assumption: set llm.context_tokens if the model takes more or less"
}

func checkModel(ctx context.Context, m llm.Model, what, why string) Finding {
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	_, err := m.Complete(ctx, llm.Request{
		Messages:        []llm.Message{{Role: llm.User, Text: "Say ok."}},
		MaxOutputTokens: 16,
	}, nil)
	if err != nil {
		return fail(what, err)
	}
	return ok("%s %s answers: %s", what, m.Name(), why)
}

// ownTools are Corebot's own tools as a model is offered them. Those of shell.exec and of MCP servers are not among
// them.
func ownTools(c config.Config) ([]llm.Tool, error) {
	// It only describes them: none is called.
	all, err := (&App{config: c}).builtins(&agentUnit{notes: &notes{}}, nil)
	offered := make([]llm.Tool, 0, len(all))
	for _, t := range all {
		offered = append(offered, t.Offered())
	}
	return offered, err
}

// checkRoom says what Corebot's own tools leave of a prompt. It cannot count the tools of MCP servers: a check of
// settings reaches no server.
func checkRoom(c config.Config, chosen choice) Finding {
	context, _ := contextFor(chosen, c.LLM)
	offered, err := ownTools(c)
	if err != nil {
		return fail("the tools", err)
	}
	prompt := context - c.LLM.OutputTokens
	whole, brief := agent.ToolTokens(chosen.tokenizer, offered)
	const hint = "set llm.context_tokens to what the model takes, or lower llm.output_tokens"
	switch {
	case !agent.TooManyToolTokens(whole, prompt):
		return ok("Corebot's own tools take %d of the %d tokens of a prompt; shell.exec and the tools of MCP servers "+
			"come on top", whole, prompt)
	case 2*brief <= prompt:
		return warn(hint, "the context is small: a prompt has %d tokens, and the descriptions of Corebot's own tools "+
			"are shortened from %d to %d", prompt, whole, brief)
	}
	return warn(hint, "the context is too small for the tools: a prompt has %d tokens, and Corebot's own tools take "+
		"%d of them, shortened", prompt, brief)
}

// WarnOfRoom says in words that the context of the settings is small for the tools; empty if it is not, or if the
// settings leave its size open.
func WarnOfRoom(c config.Config) string {
	if c.LLM.ContextTokens == 0 {
		return ""
	}
	if f := checkRoom(c, choice{tokenizer: llm.Estimate{}}); f.Level != "ok" {
		return "llm.context_tokens: " + f.What
	}
	return ""
}

const (
	nearShare = 80 // per cent of a limit: a sender who takes that much is shown
	nearShown = 10 // senders
)

// checkSenderFiles shows the senders whose files in the folders of chats take nearly as much as they can.
func checkSenderFiles(ctx context.Context, home string, c config.Tools) []Finding {
	if c.SenderFilesBytes == 0 && c.SenderFiles == 0 {
		return nil
	}
	db, err := storage.OpenReader(ctx, DataDir(home))
	if err != nil {
		return nil // said of the database already
	}
	defer db.Close() //nolint:errcheck // only read
	least := corebot.FileSum{
		Bytes:   c.SenderFilesBytes * nearShare / 100,
		Entries: int64(c.SenderFiles) * nearShare / 100,
	}
	near, err := storage.NewFileCharges(db).Most(ctx, least, nearShown)
	if err != nil {
		return []Finding{fail("the files of senders", err)}
	}
	var findings []Finding
	for _, n := range near {
		who := n.Principal.String()
		if n.Chat != "" {
			who = "senders without an id in " + n.Chat
		}
		hint := "let them delete files, remove files in workspace/chats, or raise " +
			strings.Join(nearKeys(n, least), " and ")
		findings = append(findings, warn(hint, "the files of %s take %d KiB in %d entries, in %d chats", who,
			n.Bytes>>10, n.Entries, n.Chats))
	}
	if len(findings) == 0 {
		findings = append(findings, ok("no sender's files take %d %% of tools.sender_files_bytes or tools.sender_files",
			nearShare))
	}
	return findings
}

func nearKeys(n corebot.FileCharge, least corebot.FileSum) (keys []string) {
	if least.Bytes > 0 && n.Bytes >= least.Bytes {
		keys = append(keys, "tools.sender_files_bytes")
	}
	if least.Entries > 0 && n.Entries >= least.Entries {
		keys = append(keys, "tools.sender_files")
	}
	return keys
}

// checkDrafts looks for answers that stand half in chats of accounts that have left the settings. Nobody but Corebot
// knows them, and it cannot take them back.
func checkDrafts(ctx context.Context, home string, c config.Config) (findings []Finding) {
	db, err := storage.OpenReader(ctx, DataDir(home))
	if err != nil {
		return nil // said of the database already
	}
	defer db.Close() //nolint:errcheck // only read
	all, err := storage.NewDrafts(db).All(ctx)
	if err != nil {
		return []Finding{fail("the drafts of answers", err)}
	}
	left := map[string]int{}
	for _, d := range all {
		left[channels.AccountOf(d.Key).String()]++
	}
	a := &App{config: c, networks: Networks()}
	for _, x := range a.accounts() {
		delete(left, x.Account.String())
	}
	for _, account := range slices.Sorted(maps.Keys(left)) {
		findings = append(findings, warn("put the account back into the settings: the next start takes them back; "+
			"after a week Corebot forgets them, and its log names the chats",
			"%s has left the settings, and half answers can stand in %d of its chats", account, left[account]))
	}
	return findings
}
