package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

func newDB(s *shell) *cobra.Command {
	return group("db", "Back up and restore a home; check, migrate and shrink its database", newDBBackup(s),
		newDBRestore(s), newDBCheck(s), newDBMigrate(s), newDBNew(s), newDBVacuum(s), newDBReindex(s))
}

// databaseVerdict is what `db check --json` prints. The schema is 0 if the database could not be read.
type databaseVerdict struct {
	OK       bool     `json:"ok"`
	Schema   int64    `json:"schema"`
	Problems []string `json:"problems"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
}

func newDBCheck(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the whole database file and the files of messages, beside a running Corebot too",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			problems, err := s.problems(cmd.Context())
			v := databaseVerdict{Schema: storage.SchemaVersion(), Problems: append([]string{}, problems...)}
			if err != nil {
				v.Schema, v.Error, v.Hint = 0, err.Error(), corebot.HintOf(err)
			} else if len(problems) > 0 {
				err = fmt.Errorf("the database has %s", count(int64(len(problems)), "problem"))
			}
			v.OK = err == nil
			if asJSON {
				return errors.Join(err, printJSON(cmd, v))
			}
			t := &teller{w: cmd.OutOrStdout()}
			for _, p := range problems {
				t.line("%s", oneLine(p, 500))
			}
			if v.OK {
				t.line("ok (schema %d)", v.Schema)
			}
			return errors.Join(err, t.err)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// problems reads what is wrong with the database file, beside a running Corebot too.
func (s *shell) problems(ctx context.Context) (found []string, err error) {
	dir, err := s.dataDir()
	if err != nil {
		return nil, err
	}
	db, err := storage.OpenReader(ctx, dir)
	if err != nil {
		return nil, storage.ForCheck(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if found, err = db.Problems(ctx); err != nil || len(found) > 0 {
		return found, err
	}
	return app.FileProblems(ctx, db, filepath.Dir(dir))
}

func newDBMigrate(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema, after a backup",
		Long: `Bring the database to this version's schema. Existing data is copied to data/backups first, and the
copy is checked. Starting Corebot does the same.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			return app.WithStore(cmd.Context(), home, func(*storage.DB) error {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "the database has schema %d\n", storage.SchemaVersion())
				return err
			})
		},
	}
}

func newDBVacuum(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "vacuum",
		Short: "Shrink the database to what is in it; no Corebot may run meanwhile",
		Long: `Shrink the file of the database to the data that it has. Without this command, new data takes the
place of what retention has deleted, but the file never gets smaller.

No Corebot may run on the home meanwhile. The disk needs free room for two copies of the data. If
there is less, the command changes nothing.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			var v storage.Vacuumed
			if err := app.Locked(cmd.Context(), home, func() (err error) {
				v, err = storage.Vacuum(cmd.Context(), app.DataDir(home))
				return err
			}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the database had %d KiB, and has %d KiB\n", v.Before>>10,
				v.After>>10)
			return err
		},
	}
}

func newDBNew(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Begin with an empty database; no Corebot may run meanwhile",
		Long: `Begin with an empty database: no chats, no roles, no message ids of before. The database that is
there is moved to data/set-aside-…, with all that belongs to it; nothing is deleted.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := s.dataDir()
			if err != nil {
				return err
			}
			aside, err := storage.BeginAnew(cmd.Context(), dir)
			t := &teller{w: cmd.OutOrStdout()}
			if aside != "" {
				t.line("what was there is in %s", aside)
			}
			if err != nil {
				return err
			}
			home := filepath.Dir(dir) // which remembers its database from then on
			if err := app.WithStore(cmd.Context(), home, func(*storage.DB) error { return nil }); err != nil {
				return err
			}
			t.line("the database is new and empty")
			return t.err
		},
	}
}

func newDBBackup(s *shell) *cobra.Command {
	var to string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up the whole home, beside a running Corebot too",
		Long: `Back up the whole home: the database, attached files, the workspaces of all agents, and the
settings without their secrets. A running Corebot makes the backup and goes on working. The copy of
the database is of one moment, and it is checked before the backup gets its name.

Without --to the backup is a directory of its own in backup.dir, and backups beyond backup.keep are
removed. "corebot db restore" takes the directory.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if to != "" {
				if to, err = filepath.Abs(to); err != nil {
					return err
				}
			}
			if err := s.hasDatabase(cmd.Context()); err != nil {
				return err
			}
			var made backup.Made
			err = s.change(cmd, func(c control.Caller) error {
				made, err = operate.MakeBackup.Call(cmd.Context(), c, operate.BackupOrder{To: to})
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, made)
			}
			return showMade(cmd, made)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "make the backup here; the directory must be missing or empty")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// hasDatabase refuses a home without a database: a backup must not make one.
func (s *shell) hasDatabase(ctx context.Context) error {
	dir, err := s.dataDir()
	if err != nil {
		return err
	}
	db, err := storage.OpenReader(ctx, dir)
	if err == nil {
		return db.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // whoever opens it to write says more, or migrates it
}

func showMade(cmd *cobra.Command, m backup.Made) error {
	t := &teller{w: cmd.OutOrStdout()}
	t.line("the backup is in %s", m.Path)
	t.line("%s, %s, schema %d, made in %.1f s", count(m.Total.Files, "file"), inMiB(m.Total.Bytes), m.Schema, m.Seconds)
	t.line("audit head %s", m.Audit)
	tellWaiting(t, m.Counts.Waiting, m.Counts.Running, m.Counts.Outbound)
	for _, secret := range m.Secrets {
		if secret.LeftOut {
			t.line("left out is the secret %s of %s", secret.Setting, secret.File)
		}
	}
	for _, file := range m.LeftOut {
		t.line("left out is %s: %s", file.Path, oneLine(file.Why, 300))
	}
	for _, path := range m.Removed {
		t.line("removed the old backup %s", path)
	}
	return t.err
}

func tellWaiting(t *teller, waiting, running, replies int64) {
	t.line("%s waited at that moment, %d of them at work, and %s to be sent", count(waiting, "message"), running,
		plural(replies, "reply", "replies"))
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func inMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func newDBRestore(s *shell) *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "restore DIR|FILE",
		Short: "Go on with a backup; no Corebot may run meanwhile",
		Long: `Restore a backup of "corebot db backup", in an empty home or over one that is there. Every file of
the backup is checked first. A backup that is damaged, or made by a newer version, changes nothing.
The database, the files and the workspaces of the backup take their places at once. What was there
is moved to data/set-aside-…; nothing is deleted. Settings that the home has stay.

A FILE is a copy of the database alone, such as one of data/backups, or from elsewhere.`,
		Args: takes("DIR|FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			r, err := app.Restore(cmd.Context(), home, from, dry)
			if err != nil {
				if r.Aside != "" {
					err = fmt.Errorf("what was there is in %s: %w", r.Aside, err)
				}
				return err
			}
			if asJSON {
				return printJSON(cmd, r)
			}
			return showRestored(cmd, r, dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the backup, say what would be restored, and change nothing")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func showRestored(cmd *cobra.Command, r app.Restored, dry bool) error {
	t := &teller{w: cmd.OutOrStdout()}
	switch {
	case dry && r.Manifest != nil:
		t.line("%s is whole; nothing was changed", r.Backup)
	case dry:
		t.line("%s is a database of Corebot; nothing was changed", r.Backup)
		return t.err
	case r.Manifest == nil:
		t.line("the database is now a copy of %s", r.Backup)
	default:
		t.line("%s goes on with %s", r.Home, r.Backup)
	}
	if r.Aside != "" {
		t.line("what was there is in %s", r.Aside)
	}
	at := r.Has.LastCommit
	if r.Manifest != nil {
		at = r.Manifest.MadeAt
	}
	t.line("the copy is of %s (%s ago)", clock(at), time.Since(at).Round(time.Second))
	for _, p := range r.Problems {
		t.line("problem: %s", oneLine(p, 300))
	}
	tellWaiting(t, r.Has.Counts.Waiting, r.Has.Counts.Running, r.Has.Counts.Outbound)
	t.line("will be answered: the messages that waited; those at work go on from their journals")
	t.line("will be sent: the replies that waited, also those that were sent after the copy was made")
	t.line("not known any more: %s; one that is sent again is answered", tellNewer(r.Newer))
	tellSettings(t, r)
	return t.err
}

func tellNewer(n *corebot.Newer) string {
	if n == nil {
		return "messages that came after the copy was made"
	}
	return fmt.Sprintf("%s in %s that came after the copy was made",
		count(n.Messages, "message"), count(n.Chats, "chat"))
}

func tellSettings(t *teller, r app.Restored) {
	if len(r.Settings) > 0 {
		t.line("settings from the backup: %s", strings.Join(r.Settings, ", "))
	}
	if len(r.Kept) > 0 {
		t.line("settings of this home that stay: %s", strings.Join(r.Kept, ", "))
	}
	for _, secret := range r.Secrets {
		t.line("missing is the secret %s of %s: put it where %s says", secret.Setting, secret.File, secret.Reference)
	}
}
