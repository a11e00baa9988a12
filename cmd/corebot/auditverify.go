package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/witness"
)

// auditCheck are the flags of `corebot audit verify`.
type auditCheck struct {
	asJSON                 bool
	head, heads, key, file string
	restored               []int64
}

func newAuditVerify(s *shell) *cobra.Command {
	var c auditCheck
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody has changed the audit trail",
		Long: `Check that each event of the audit trail is what was written, and that none is missing: every event
has a hash of itself and of the one before it. Whoever can write the database can write a trail anew
that fits together. Heads that were published outside of the database show that: --heads checks that
each line of a file is signed by the key of the home, and that its head is on the trail. Take the
file, and the public key for --key, from where the writer of the database could not reach them.

A restored backup leaves later heads behind, and the trail has an event of it. --restored names the
event of a restore that you know of. --head checks one head that was noted without a signature.

--file checks an export of "corebot audit export", without a home.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.file != "" {
				return c.evidence(cmd)
			}
			return c.trail(s, cmd)
		},
	}
	jsonFlag(cmd, &c.asJSON)
	flags := cmd.Flags()
	flags.StringVar(&c.head, "head", "", "a head that was noted before, EVENT:HASH")
	flags.StringVar(&c.heads, "heads", "", "a file with published heads, a line each; - is the standard input")
	flags.StringVar(&c.key, "key", "", "the file of the public keys (default: audit.pub of the home)")
	flags.StringVar(&c.file, "file", "", "an export, instead of the trail of the home")
	flags.Int64SliceVar(&c.restored, "restored", nil, "the event of a restored backup that you know of")
	return cmd
}

// trail checks the trail of the home.
func (c auditCheck) trail(s *shell, cmd *cobra.Command) error {
	var v operate.Verification
	if c.head != "" {
		h, err := corebot.ParseAuditHead(c.head)
		if err != nil {
			return usage(cmd, err)
		}
		v.Noted = &h
	}
	var published witness.Published
	if c.heads != "" {
		var err error
		if published, err = c.published(s); err != nil {
			return err
		}
		if v.Kept, err = s.auditKept(); err != nil {
			return err
		}
		for _, l := range published.Lines {
			v.Heads = append(v.Heads, l.Head())
		}
		v.Restored = c.restored
	}
	chain, err := look(s, cmd, operate.VerifyAudit, v)
	if err != nil {
		return err
	}
	if err := printChain(cmd, chain, published, c.asJSON); err != nil || len(published.Bad) == 0 {
		return err
	}
	return corebot.WithHint(fmt.Errorf("%s of %s say nothing: %w", count(int64(len(published.Bad)), "line"), c.heads,
		errors.Join(published.Bad...)), "somebody has changed them, or a write broke off; another copy of the file, "+
		"or the log, has them whole")
}

// auditKept is how long retention keeps events.
func (s *shell) auditKept() (time.Duration, error) {
	settings, err := s.settings()
	return settings.Retention.Audit, err
}

// published reads the file of the published heads.
func (c auditCheck) published(s *shell) (p witness.Published, err error) {
	home, err := config.Home(s.home)
	if err != nil {
		return p, err
	}
	keys, err := witness.ReadKeys(cmp.Or(c.key, filepath.Join(home, witness.PublicFile)))
	if err != nil {
		return p, corebot.WithHint(err, "--key names the file of the public keys")
	}
	in := io.Reader(os.Stdin)
	if c.heads != "-" {
		f, err := os.Open(c.heads)
		if err != nil {
			return p, fmt.Errorf("read the published heads: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	if p, err = witness.Read(in, keys); err != nil {
		return p, fmt.Errorf("read the published heads of %s: %w", c.heads, err)
	}
	if len(p.Lines) == 0 {
		return p, corebot.WithHint(errors.Join(append([]error{fmt.Errorf("%s has no published head", c.heads)},
			p.Bad...)...), "--key names the file of the public keys that signed them")
	}
	return p, nil
}

// evidence checks an export, without a home.
func (c auditCheck) evidence(cmd *cobra.Command) error {
	if c.head != "" || c.heads != "" || c.restored != nil {
		return usage(cmd, errors.New("--file has its own heads: --head, --heads and --restored are of the trail "+
			"of a home"))
	}
	var keys witness.Keys
	if c.key != "" {
		var err error
		if keys, err = witness.ReadKeys(c.key); err != nil {
			return err
		}
	}
	f, err := os.Open(c.file)
	if err != nil {
		return fmt.Errorf("read the export: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	checked, err := witness.Check(f, keys)
	if errors.Is(err, witness.ErrUnsigned) {
		return corebot.WithHint(fmt.Errorf("check %s with the keys of %s: %w", c.file, c.key, err),
			"do not trust the file; `corebot audit export` writes heads once Corebot has published some, "+
				"which it does at its start")
	}
	if err != nil {
		return corebot.WithHint(err, "the file is not what was exported")
	}
	if c.asJSON {
		return printJSON(cmd, checked)
	}
	t := &teller{w: cmd.OutOrStdout()}
	t.line("unbroken  %s, from event %d", count(checked.Events, "event"), checked.First)
	t.line("head      %s", checked.Head)
	if checked.Heads == 0 {
		t.line("proven    nothing: the file has no published head, and whoever wrote it can have invented every event")
		return t.err
	}
	t.line("proven    up to event %d, by %s; the last was published %s", checked.Proven,
		count(int64(checked.Heads), "head"), clock(checked.ProvenAt))
	if checked.Proven < checked.Head.Event {
		t.line("unproven  from event %d on: no published head is that new", checked.Proven+1)
	}
	t.line("signed    by the key %s", strings.Join(checked.Signers, ", "))
	if !checked.Pinned {
		t.line("note      the key is that of the file itself: compare its name, or give --key")
	}
	return t.err
}

func printChain(cmd *cobra.Command, c corebot.AuditChain, p witness.Published, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, c)
	}
	t := &teller{w: cmd.OutOrStdout()}
	t.line("unbroken  %s", count(c.Events, "event"))
	if c.Past > 0 {
		t.line("begins    behind event %d", c.Past)
	}
	if c.Head.Hash != "" {
		t.line("head      %s", c.Head)
	}
	if c.Emptied > 0 {
		t.line("emptied   %s: their arguments were deleted with their chats", count(c.Emptied, "event"))
	}
	if c.Held > 0 && len(p.Lines) > 0 {
		last := p.Lines[len(p.Lines)-1]
		t.line("published %s on the trail; the last one is of event %d, published %s", count(int64(c.Held), "head"),
			last.Event, clock(last.At))
	}
	if c.Older > 0 {
		t.line("besides   %s of events that retention has deleted", count(int64(c.Older), "head"))
	}
	if c.LeftBehind > 0 {
		t.line("besides   %s of events that a restored backup left behind", count(int64(c.LeftBehind), "head"))
	}
	if c.OtherDatabases > 0 {
		t.line("besides   %s of another database", count(int64(c.OtherDatabases), "head"))
	}
	if p.Cut {
		t.line("note      the last line is cut off: the write of it broke off")
	}
	return t.err
}

func newAuditExport(s *shell) *cobra.Command {
	var out, heads string
	var from int64
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit trail as evidence that can be checked without the home",
		Long: `Write the audit trail, its published heads and the public keys into one file. "corebot audit verify
--file" checks it on any machine, without a home. The heads are those of audit.file, or of --heads.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e := exporting{shell: s, cmd: cmd, from: max(from, 1), heads: heads}
			return e.write(out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file; it must not exist (default: the standard output)")
	cmd.Flags().StringVar(&heads, "heads", "", "a file with published heads (default: audit.file)")
	cmd.Flags().Int64Var(&from, "from", 1, "the first event")
	return cmd
}

// exporting is one export.
type exporting struct {
	*shell
	cmd   *cobra.Command
	from  int64
	heads string
}

func (e exporting) write(out string) (err error) {
	if out == "" {
		return e.to(e.cmd.OutOrStdout())
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	if err = errors.Join(e.to(f), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(out))
	}
	_, err = fmt.Fprintf(e.cmd.OutOrStdout(), "wrote %s\n", out)
	return err
}

// to writes what the trail is now; events that come meanwhile are left out.
func (e exporting) to(w io.Writer) error {
	settings, err := e.settings()
	if err != nil {
		return err
	}
	head, err := look(e.shell, e.cmd, operate.ReadHead, struct{}{})
	if err != nil {
		return err
	}
	chain, err := look(e.shell, e.cmd, operate.VerifyAudit, operate.Verification{}) // no evidence of a broken trail
	if err != nil {
		return err
	}
	first := max(e.from, chain.Past+1)
	if first > head.Event {
		return fmt.Errorf("%w: the trail has no event from %d on; its newest is %d", corebot.ErrInvalid, first,
			head.Event)
	}
	lines, keys, err := e.published(settings, head.Database, first, head.Event)
	if err != nil {
		return err
	}
	about := witness.Evidence{
		Version: 1, ExportedAt: time.Now().UTC(), Database: head.Database, Past: first - 1,
		Events: head.Event - first + 1, Heads: len(lines), PublicKeys: keys,
	}
	if about.PastHash, err = e.hashBefore(chain, first); err != nil {
		return err
	}
	to := bufio.NewWriter(w)
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	err = enc.Encode(about)
	for _, l := range lines {
		err = errors.Join(err, enc.Encode(l))
	}
	if err != nil {
		return err
	}
	if err := e.records(enc, first, head.Event); err != nil {
		return err
	}
	return to.Flush()
}

// records writes the events of a range.
func (e exporting) records(enc *json.Encoder, first, last int64) error {
	after := first - 1
	for after < last {
		page, err := look(e.shell, e.cmd, operate.ReadRecords, operate.Part{After: fmt.Sprint(after)})
		if err != nil {
			return err
		}
		if len(page.Rows) == 0 {
			return fmt.Errorf("the trail ends before event %d", last)
		}
		for _, r := range page.Rows {
			if r.ID > last {
				return nil
			}
			if err := enc.Encode(r); err != nil {
				return err
			}
			after = r.ID
		}
	}
	return nil
}

// hashBefore is the hash of the event before the first.
func (e exporting) hashBefore(chain corebot.AuditChain, first int64) (string, error) {
	if first-1 <= chain.Past {
		return chain.PastHash, nil
	}
	page, err := look(e.shell, e.cmd, operate.ReadRecords, operate.Part{After: fmt.Sprint(first - 2), Limit: 1})
	if err != nil || len(page.Rows) == 0 {
		return "", cmp.Or(err, fmt.Errorf("event %d: %w", first-1, corebot.ErrNotFound))
	}
	return page.Rows[0].Hash, nil
}

// published are the heads of a range that were published, and the public keys.
func (e exporting) published(c config.Config, database string, first, last int64) (lines []witness.Line, keys string,
	err error,
) {
	public, err := witness.ReadKeys(filepath.Join(c.Home, witness.PublicFile))
	if err != nil {
		return nil, "", corebot.WithHint(err, "`corebot serve` makes the key when it publishes the first head")
	}
	if keys, err = public.Encode(); err != nil {
		return nil, "", err
	}
	path := cmp.Or(e.heads, app.AuditFile(c))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && e.heads == "" || path == "" {
		return nil, keys, nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the published heads: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	read, err := witness.Read(f, public)
	for _, l := range read.Lines {
		if l.Database == database && l.Event >= first-1 && l.Event <= last {
			lines = append(lines, l)
		}
	}
	return lines, keys, err
}

func newAuditKey(s *shell) *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Show the public key that signs the heads of the audit trail, or make a new one",
		Long: `Show the key that signs the heads of the audit trail, and its public key in PEM. Keep a copy of the
public key where whoever can write the home cannot reach it. --new makes a new key, because the old
one is lost or was read by others; the trail says so, and the old public key stays for old heads.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			if fresh {
				if err := s.change(cmd, func(c control.Caller) error {
					_, err := operate.NewAuditKey.Call(cmd.Context(), c, struct{}{})
					return err
				}); err != nil {
					return err
				}
			}
			key, err := witness.Look(home)
			if errors.Is(err, fs.ErrNotExist) {
				return corebot.WithHint(errors.New("this home has no key yet"),
					"`corebot serve` makes one; so does --new")
			}
			if err != nil {
				return err
			}
			text, err := witness.Keys{key.ID: key.Public()}.Encode()
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "key %s\n%s", key.ID, text)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&fresh, "new", false, "make a new key")
	return cmd
}
