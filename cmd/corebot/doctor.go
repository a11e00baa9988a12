package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
)

func newDoctor(s *shell) *cobra.Command {
	var asJSON, fix, yes bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the home, the database and the model, and say what to mend",
		Long: `Look at the home, the settings, the disk, the database and the model, and say what to mend. The model
is asked for one word. Nothing is changed without --fix.

With --fix it first mends what can be mended safely: rights of others on the home and its files, missing
pages of the workspace, a control socket that nobody listens at. It shows each change, and asks once at a
terminal. Elsewhere it needs --yes. For the rest it names the command.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			if fix {
				if err := mend(cmd, home, yes); err != nil {
					return err
				}
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
	cmd.Flags().BoolVar(&fix, "fix", false, "mend what can be mended safely")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix: without asking")
	return cmd
}

// mend makes the repairs of a home, once they are shown and agreed to. Its questions go to stderr, apart from the
// findings.
func mend(cmd *cobra.Command, home string, yes bool) error {
	repairs, err := app.Repairs(cmd.Context(), home)
	if err != nil {
		return err
	}
	t := &teller{w: cmd.ErrOrStderr()}
	for _, r := range repairs {
		t.line("mend  %s", oneLine(r.What, 500))
		if r.Note != "" {
			t.line("      %s", r.Note)
		}
	}
	if len(repairs) == 0 {
		t.line("mend  nothing")
		return t.err
	}
	if err := agreeToMend(cmd, yes); err != nil {
		return err
	}
	for _, r := range repairs {
		if err := r.Do(); err != nil {
			return fmt.Errorf("%s: %w", r.What, err)
		}
	}
	t.line("done  %s", count(int64(len(repairs)), "change"))
	return t.err
}

func agreeToMend(cmd *cobra.Command, yes bool) error {
	if yes {
		return nil
	}
	a := newAsker(cmd.InOrStdin(), cmd.OutOrStdout())
	if a == nil {
		return corebot.WithHint(fmt.Errorf("nothing was changed: nobody can be asked"), "add --yes")
	}
	goOn, err := a.yes(cmd.Context(), "Make these changes?", true)
	if err == nil && !goOn {
		err = errDeclined
	}
	return err
}
