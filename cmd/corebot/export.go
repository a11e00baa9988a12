package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/dirtree"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsExport(s *shell) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export KEY --to DIR",
		Short: "Write all that was said and kept in a chat into a new directory",
		Long: `Write all that was said and kept in a chat into a new directory:

  chat.json          the chat and its settings
  history.jsonl      what was said, an entry a line, the newest first, of all sessions
  memory.json        its page of memory in pieces, and the facts that were said there: who said each, in
                     which message, what others had a hand in, and which fact superseded it
  tasks.jsonl        its tasks
  audit.jsonl        what tools did there, the newest first
  attachments.jsonl  the files of its messages, and why a file is missing
  attachments/       the contents of those files
  files/             its folder in the workspace: memory, artifacts and files

The directory appears when it is whole, and not at all if anything fails. DIR must not be there yet, nor be
in the home of Corebot. Links and other special files of the folder are left out, and counted.

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
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			if err := backup.Outside([]backup.Tree{{Dir: home}}, to); err != nil {
				return err
			}
			e := &chatExport{s: s, cmd: cmd, key: key, home: home, wrote: map[string]int64{}, known: map[string]bool{}}
			if err := dirtree.Make(cmd.Context(), to, e.fill); err != nil {
				return fmt.Errorf("export %s: %w", key, err)
			}
			return e.tell(&teller{w: cmd.OutOrStdout()}, to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the new directory")
	return cmd
}

// chatExport writes what is kept of a chat.
type chatExport struct {
	s     *shell
	cmd   *cobra.Command
	key   corebot.Key
	home  string
	to    *os.Root
	wrote map[string]int64 // rows or files, by the name of the file or directory

	known   map[string]bool // contents that attachments.jsonl has, by their hashes
	missing int64           // of them: those without their bytes
	special int64           // links and other special files of the folder
}

func (e *chatExport) fill(to *os.Root) error {
	e.to = to
	chat, err := look(e.s, e.cmd, operate.ShowChat, operate.ChatQuery{Key: e.key})
	if err != nil {
		return err
	}
	settings := struct {
		operate.Chat
		Summary corebot.Summary `json:"summary,omitzero"`
	}{chat.Chat, chat.Summary}
	for _, part := range []struct {
		name  string
		write func(*rows) error
	}{
		{"chat.json", func(r *rows) error { return r.put(settings) }},
		{"attachments.jsonl", e.said},
		{"memory.json", e.memory},
		{"tasks.jsonl", e.tasks},
		{"audit.jsonl", e.audit},
	} {
		if err := e.file(part.name, part.write); err != nil {
			return fmt.Errorf("write %s: %w", part.name, err)
		}
	}
	if err := e.files(); err != nil {
		return fmt.Errorf("copy the folder of the chat: %w", err)
	}
	return nil
}

func (e *chatExport) tell(t *teller, dir string) error {
	n := e.wrote
	t.line("%s is in %s: %s, %s, %s, %s, %s, %s", e.key, printable(dir),
		plural(n["history.jsonl"], "entry", "entries"), count(n["facts"], "fact"), count(n["tasks.jsonl"], "task"),
		count(n["audit.jsonl"], "audit event"), count(n["files"], "file"), count(n["attachments"], "attachment"))
	if e.missing > 0 {
		t.line("%s of messages %s missing here: attachments.jsonl says which, and why", count(e.missing, "file"),
			map[bool]string{true: "is", false: "are"}[e.missing == 1])
	}
	if e.special > 0 {
		t.line("left out of its folder: %s", plural(e.special, "link or special file", "links and special files"))
	}
	return t.err
}

// rows writes JSON values, one a line, and counts them.
type rows struct {
	enc *json.Encoder
	out *bufio.Writer
	n   int64
}

func (r *rows) put(v any) error {
	r.n++
	return r.enc.Encode(v)
}

// file makes a file of the export, and has it on disk.
func (e *chatExport) file(name string, write func(*rows) error) error {
	return dirtree.Write(e.to, name, func(w io.Writer) error {
		r := &rows{out: bufio.NewWriter(w)}
		r.enc = json.NewEncoder(r.out)
		r.enc.SetEscapeHTML(false)
		err := write(r)
		e.wrote[name] = r.n
		return errors.Join(err, r.out.Flush())
	})
}

// each writes the rows of a list, page by page.
func each[T any](page func(operate.Part) (operate.Page[T], error), put func(T) error) error {
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

func putAll[T any](r *rows, page func(operate.Part) (operate.Page[T], error)) error {
	return each(page, func(row T) error { return r.put(row) })
}

// attachment is a line of attachments.jsonl: a file of a message, and where it is in the export, or why it is not.
type attachment struct {
	Hash      string    `json:"hash,omitempty"` // SHA-256, in hex
	Name      string    `json:"name,omitempty"`
	MediaType string    `json:"mediaType,omitempty"`
	Size      int64     `json:"size,omitempty"`
	MessageID string    `json:"messageId,omitempty"` // the newest message with it
	At        time.Time `json:"at,omitzero"`
	File      string    `json:"file,omitempty"`
	Missing   string    `json:"missing,omitempty"`
}

// said writes the history, and beside it the files that its messages refer to. First come those that the chat still
// has, and then those of which only the history knows.
func (e *chatExport) said(files *rows) error {
	if err := each(func(p operate.Part) (operate.Page[operate.Attachment], error) {
		return look(e.s, e.cmd, operate.ListAttached, operate.AttachedQuery{Key: e.key, Part: p})
	}, func(a operate.Attachment) error { return e.attach(files, a) }); err != nil {
		return err
	}
	return e.file("history.jsonl", func(r *rows) error {
		return each(func(p operate.Part) (operate.Page[corebot.Said], error) {
			return look(e.s, e.cmd, operate.ReadHistory, operate.HistoryQuery{Key: e.key, Whole: true, Part: p})
		}, func(said corebot.Said) error {
			for _, p := range said.Parts {
				if err := e.remember(files, said, p); err != nil {
					return err
				}
			}
			return r.put(said)
		})
	})
}

// attach copies the content of a file, if it is there.
func (e *chatExport) attach(files *rows, a operate.Attachment) error {
	const dir = "attachments"
	e.known[a.Hash] = true
	line := attachment{
		Hash: a.Hash, Name: a.Name, MediaType: a.MediaType, Size: a.Size, MessageID: a.MessageID, At: a.At,
	}
	if a.Fault != "" {
		line.Missing = "it was not kept: " + a.Fault
		e.missing++
		return files.put(line)
	}
	if err := e.to.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	at, err := e.to.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer at.Close() //nolint:errcheck // it is synced
	// Names of senders can be alike: the number tells their files apart.
	name := strconv.FormatInt(e.wrote[dir]+1, 10) + "-" + filestore.DisplayName(a.Name)
	if err := dirtree.Write(at, name, func(w io.Writer) (err error) {
		line.Missing, err = filestore.Give(e.cmd.Context(), app.FilesDir(e.home),
			corebot.AttachedFile{Hash: a.Hash, Size: a.Size}, w)
		return err
	}); err != nil {
		return fmt.Errorf("copy the file %.16s: %w", a.Hash, err)
	}
	if line.Missing != "" {
		e.missing++
		return errors.Join(at.Remove(name), files.put(line))
	}
	e.wrote[dir]++
	line.File = dir + "/" + name
	return errors.Join(dirtree.Sync(at), files.put(line))
}

// remember names a file of which the chat has an entry, and no content.
func (e *chatExport) remember(files *rows, said corebot.Said, p corebot.Part) error {
	if p.Type == corebot.PartText || p.Hash != "" && e.known[p.Hash] {
		return nil
	}
	line := attachment{
		Hash: p.Hash, Name: p.Name, MediaType: p.MediaType, MessageID: said.MessageID, At: said.At,
		Missing: "its content is not kept in this chat",
	}
	if p.Hash != "" {
		e.known[p.Hash] = true
	} else if p.Text != "" {
		line.Missing = p.Text
	}
	e.missing++
	return files.put(line)
}

// memory writes the page of the chat and its facts as one object. There can be 100,000 facts: they are written as they
// are read.
func (e *chatExport) memory(r *rows) error {
	page, err := look(e.s, e.cmd, operate.ReadMemory, operate.MemoryQuery{Key: e.key})
	if err != nil {
		return err
	}
	head, err := json.Marshal(page)
	if err == nil {
		_, err = fmt.Fprintf(r.out, `{"page":%s,"facts":[`, head)
	}
	if err != nil {
		return err
	}
	between := "\n"
	err = each(func(p operate.Part) (operate.Page[operate.Fact], error) {
		return look(e.s, e.cmd, operate.ListFacts, operate.FactQuery{Key: e.key, Superseded: true, Part: p})
	}, func(f operate.Fact) error {
		if f.ChatID != e.key.String() { // the chat sees it, and it was said in another one
			return nil
		}
		e.wrote["facts"]++
		if _, err := r.out.WriteString(between); err != nil {
			return err
		}
		between = ","
		return r.put(f)
	})
	if err == nil {
		_, err = r.out.WriteString("]}\n")
	}
	return err
}

func (e *chatExport) tasks(r *rows) error {
	return putAll(r, func(p operate.Part) (operate.Page[operate.TaskRow], error) {
		return look(e.s, e.cmd, operate.ListTasks, operate.TaskQuery{Key: e.key, Part: p})
	})
}

func (e *chatExport) audit(r *rows) error {
	return putAll(r, func(p operate.Part) (operate.Page[operate.AuditEvent], error) {
		q := operate.AuditQuery{Filter: corebot.AuditFilter{Key: e.key, Decisions: true}, Part: p}
		return look(e.s, e.cmd, operate.ListAudit, q)
	})
}

// files copies the folder of the chat.
func (e *chatExport) files() error {
	from, err := app.ChatFolder(e.home, e.key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	if err := e.to.Mkdir("files", 0o700); err != nil {
		return err
	}
	to, err := e.to.OpenRoot("files")
	if err != nil {
		return err
	}
	defer to.Close() //nolint:errcheck // it is synced
	did, err := dirtree.Copy(e.cmd.Context(), from, to)
	e.wrote["files"], e.special = did.Files, did.Left
	return err
}
