package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsDelete(s *shell) *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Delete all that is kept of a chat, for good",
		Long: `Delete all that is kept of a chat, for good: its messages, history, summaries, memory, files, tasks,
roles and lasting approvals, those of its threads and child turns, and what it asked other agents. A
KEY with a thread means that thread alone. Free pages of the database and its write-ahead log are
overwritten.

The audit trail keeps that calls happened, and loses their arguments. Usage keeps its sums. Backups
that were made before still have the chat. Ids of the deleted messages are not known any more: one
that a network delivers again is answered.

Forks of the chat are chats of their own: the command names them, and they stay.

Nothing is deleted while a message of the chat waits or runs. A deletion that was cut off goes on with
the same command.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			var lost operate.LostChat
			if err := s.change(cmd, func(c control.Caller) error {
				lost, err = operate.DeleteChat.Call(cmd.Context(), c, operate.ChatLoss{Key: key, Dry: dry})
				return err
			}); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, lost)
			}
			return tellLost(&teller{w: cmd.OutOrStdout()}, lost, dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say which conversations would be deleted, and change nothing")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func tellLost(t *teller, lost operate.LostChat, dry bool) error {
	verb := "deleted"
	if dry {
		verb = "would delete"
	}
	for _, k := range lost.Keys {
		t.line("%s %s", verb, k)
	}
	if len(lost.Forks) > 0 {
		t.line("forks, which are chats of their own and stay with what was copied into them; the same command " +
			"deletes each:")
	}
	for _, k := range lost.Forks {
		t.line("  %s", k)
	}
	if dry {
		return t.err
	}
	for _, part := range []struct {
		n    int64
		what string
	}{
		{lost.Messages, "message"},
		{lost.History, "entry of the history"},
		{lost.Mail, "reply that could be fetched"},
		{lost.Tasks, "task"},
		{lost.Rules, "lasting approval"},
		{lost.Grants, "role in the chat"},
		{lost.Versions, "kept change of a file"},
		{lost.Files, "file"},
		{lost.Arguments, "event of the audit trail that lost its arguments"},
	} {
		if part.n > 0 {
			t.line("  %6d  %s", part.n, part.what)
		}
	}
	if lost.KeptArguments > 0 {
		t.line("%s of an older version keep their arguments until audit retention deletes them",
			count(lost.KeptArguments, "audit event"))
	}
	t.line("backups that were made before still have the chat")
	return t.err
}

func newDBReindex(s *shell) *cobra.Command {
	var vectors bool
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Make the search index of the history anew",
		Long: `Make the search index of the history anew. A running Corebot fills it behind its turns; without one the
next start does. Searches find everything meanwhile, more slowly.

With --vectors all texts are also sent to the service of llm.embeddings again, which costs what it
costs. Each text keeps its old vector until it has its new one. A Corebot that is killed goes on where
it was.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.hasDatabase(cmd.Context()); err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				found, err := operate.Reindex.Call(cmd.Context(), c, operate.Reindexing{Vectors: vectors})
				if err != nil {
					return err
				}
				and := ""
				if vectors {
					and = ", and the vectors too"
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the search index is made anew from %s%s\n",
					plural(found.Entries, "entry", "entries"), and)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&vectors, "vectors", false, "also send all texts to the service of llm.embeddings again")
	return cmd
}

func newChatsExport(s *shell) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export KEY --to DIR",
		Short: "Write all that was said and kept in a chat into a directory",
		Long: `Write all that was said and kept in a chat into a directory, which must be missing or empty:

  chat.json      the chat and its settings
  history.jsonl  what was said, an entry a line, the newest first, of all sessions
  tasks.jsonl    its tasks
  audit.jsonl    what tools did there, the newest first
  files/         its folder in the workspace: memory, artifacts and files

Secrets are taken out of the arguments of calls. A KEY means that one conversation, without threads.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			if to == "" {
				return usage(cmd, errors.New("want --to DIR"))
			}
			e := chatExport{s, cmd, key, to, map[string]int{}}
			return e.run()
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the directory; it must be missing or empty")
	return cmd
}

// chatExport writes what is kept of a chat.
type chatExport struct {
	s     *shell
	cmd   *cobra.Command
	key   corebot.Key
	dir   string
	wrote map[string]int // lines or files, by name
}

func (e chatExport) run() error {
	chat, err := look(e.s, e.cmd, operate.ShowChat, operate.ChatQuery{Key: e.key})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	there, err := os.ReadDir(e.dir)
	if err == nil && len(there) > 0 {
		err = corebot.WithHint(fmt.Errorf("%s is not empty", e.dir), "name a directory that is not there yet")
	}
	if err != nil {
		return err
	}
	settings := struct {
		operate.Chat
		Summary corebot.Summary `json:"summary,omitzero"`
	}{chat.Chat, chat.Summary}
	if err := e.lines("chat.json", func(put func(any) error) error { return put(settings) }); err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		write func(put func(any) error) error
	}{{"history.jsonl", e.history}, {"tasks.jsonl", e.tasks}, {"audit.jsonl", e.audit}} {
		if err := e.lines(part.name, part.write); err != nil {
			return fmt.Errorf("write %s: %w", part.name, err)
		}
	}
	if err := e.files(); err != nil {
		return fmt.Errorf("copy the files of %s: %w", e.key, err)
	}
	_, err = fmt.Fprintf(e.cmd.OutOrStdout(), "%s is in %s: %s, %s, %s, %s\n", e.key, e.dir,
		plural(int64(e.wrote["history.jsonl"]), "entry", "entries"), count(int64(e.wrote["tasks.jsonl"]), "task"),
		count(int64(e.wrote["audit.jsonl"]), "audit event"), count(int64(e.wrote["files"]), "file"))
	return err
}

// lines makes a file of JSON values, one a line.
func (e chatExport) lines(name string, write func(put func(any) error) error) (err error) {
	f, err := os.OpenFile(filepath.Join(e.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriter(f)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := write(func(v any) error {
		e.wrote[name]++
		return enc.Encode(v)
	}); err != nil {
		return err
	}
	return b.Flush()
}

// each writes the rows of a list, page by page.
func each[T any](page func(operate.Part) (operate.Page[T], error), put func(any) error) error {
	_, err := eachPage(0, page, func(rows []T, _, _ bool) error {
		for _, row := range rows {
			if err := put(row); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (e chatExport) history(put func(any) error) error {
	return each(func(p operate.Part) (operate.Page[corebot.Said], error) {
		return look(e.s, e.cmd, operate.ReadHistory, operate.HistoryQuery{Key: e.key, Whole: true, Part: p})
	}, put)
}

func (e chatExport) tasks(put func(any) error) error {
	return each(func(p operate.Part) (operate.Page[operate.TaskRow], error) {
		return look(e.s, e.cmd, operate.ListTasks, operate.TaskQuery{Key: e.key, Part: p})
	}, put)
}

func (e chatExport) audit(put func(any) error) error {
	return each(func(p operate.Part) (operate.Page[operate.AuditEvent], error) {
		q := operate.AuditQuery{Filter: corebot.AuditFilter{Key: e.key, Decisions: true}, Part: p}
		return look(e.s, e.cmd, operate.ListAudit, q)
	}, put)
}

// files copies the folder of the chat. It follows no link.
func (e chatExport) files() error {
	home, err := config.Home(e.s.home)
	if err != nil {
		return err
	}
	from, err := app.ChatFolder(home, e.key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	if err := os.Mkdir(filepath.Join(e.dir, "files"), 0o700); err != nil {
		return err
	}
	to, err := os.OpenRoot(filepath.Join(e.dir, "files"))
	if err != nil {
		return err
	}
	defer to.Close() //nolint:errcheck // each file is closed and checked
	return fs.WalkDir(from.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case d.IsDir():
			return to.Mkdir(path, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		e.wrote["files"]++
		return copyFile(from, to, path)
	})
}

func copyFile(from, to *os.Root, path string) (err error) {
	in, err := from.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
