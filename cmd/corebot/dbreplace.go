package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/storage"
)

func newDBRestore(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Go on with a backup of the database; no Corebot may run meanwhile",
		Long: "Go on with a copy of a database: a backup of data/backups, or a file from elsewhere. The file is checked and " +
			"copied first. The database that is there is moved to data/set-aside-…, with all that belongs to it; nothing " +
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
		Long: "Begin with an empty database: no chats, no roles, no message ids of before. The database that is there is " +
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
