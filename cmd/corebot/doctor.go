package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
)

func newDoctor(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the home, the database and the model, and say what to mend",
		Long: "Look at the home, the settings, the disk, the database and the model, and say what to mend. The " +
			"model is asked for one word. Nothing is changed.",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			failed := int64(0)
			for _, f := range app.Diagnose(cmd.Context(), home) {
				if f.Level == "fail" {
					failed++
				}
				if asJSON {
					if err := printJSON(cmd, f); err != nil {
						return err
					}
					continue
				}
				t.line("%-4s  %s", f.Level, oneLine(f.What, 500))
				if f.Hint != "" {
					t.line("      %s", oneLine(f.Hint, 500))
				}
			}
			if failed > 0 {
				return fmt.Errorf("%s to mend", count(failed, "thing"))
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
