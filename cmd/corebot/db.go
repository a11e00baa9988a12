package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

func newDB(s *shell) *cobra.Command {
	return group("db", "Check, migrate, restore and shrink the database", newDBCheck(s), newDBMigrate(s),
		newDBRestore(s), newDBNew(s), newDBVacuum(s))
}

func newDBCheck(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the whole database file, beside a running Corebot too",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			problems, err := s.problems(cmd.Context())
			for _, p := range problems {
				fmt.Fprintln(cmd.OutOrStdout(), oneLine(p, 500))
			}
			if err != nil {
				return err
			}
			if len(problems) > 0 {
				return fmt.Errorf("the database has %s", count(int64(len(problems)), "problem"))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok (schema %d)\n", storage.SchemaVersion())
			return err
		},
	}
}

// problems reads what is wrong with the database file, beside a running Corebot too.
func (s *shell) problems(ctx context.Context) (found []string, err error) {
	dir, err := s.dataDir()
	if err != nil {
		return nil, err
	}
	db, err := storage.OpenReader(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Problems(ctx)
}

func newDBMigrate(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema, after a backup",
		Long: "Bring the database to this version's schema. Existing data is copied to data/backups first, and the " +
			"copy is checked. Starting Corebot does the same.",
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
		Long: "Shrink the database to what is in it. What retention has taken away is used again without that; the " +
			"file only never shrinks by itself.\n\n" +
			"No Corebot may run on the home meanwhile. The disk needs free room for two copies of what is in the " +
			"database; if there is less, nothing is begun.",
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

func newDBRestore(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Go on with a backup of the database; no Corebot may run meanwhile",
		Long: "Go on with a copy of a database: a backup of data/backups, or a file from elsewhere. The file is " +
			"checked and " +
			"copied first. The database that is there is moved to data/set-aside-…, with all that belongs to it; " +
			"nothing " +
			"is deleted.",
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			restore := func(ctx context.Context, dir string) (string, error) { return storage.Restore(ctx, dir, from) }
			return replaceDatabase(s, cmd, "the database is now a copy of "+from, restore)
		},
	}
}

func newDBNew(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Begin with an empty database; no Corebot may run meanwhile",
		Long: "Begin with an empty database: no chats, no roles, no message ids of before. The database that is " +
			"there is " +
			"moved to data/set-aside-…, with all that belongs to it; nothing is deleted.",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return replaceDatabase(s, cmd, "the database is new and empty", storage.BeginAnew)
		},
	}
}

// replaceDatabase has another database take the place of the home's, and opens it once: the home remembers it then.
func replaceDatabase(
	s *shell, cmd *cobra.Command, done string, replace func(ctx context.Context, dir string) (aside string, err error),
) error {
	dir, err := s.dataDir()
	if err != nil {
		return err
	}
	aside, err := replace(cmd.Context(), dir)
	t := &teller{w: cmd.OutOrStdout()}
	if aside != "" {
		t.line("what was there is in %s", aside)
	}
	if err != nil {
		return err
	}
	if err := app.WithStore(cmd.Context(), filepath.Dir(dir), func(*storage.DB) error { return nil }); err != nil {
		return err
	}
	t.line("%s", done)
	return t.err
}
