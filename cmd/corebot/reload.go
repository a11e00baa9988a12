package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
)

func newConfigReload(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running Corebot read its settings again",
		Long: `Have the running Corebot read its settings again; for .mcp.json there is "corebot mcp reload", and SIGHUP does both. It says which keys are in force now and which need a restart. Settings
that are wrong change nothing.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := s.daemon(cmd.Context(), "the next start reads the settings anyway")
			if err != nil {
				return err
			}
			r, err := control.Call[app.Reloaded](cmd.Context(), daemon, app.OpReload, struct{}{})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd, r)
			}
			t := &teller{w: cmd.OutOrStdout()}
			t.line("applied          %s", listed(r.Applied))
			t.line("needs a restart  %s", listed(r.Restart))
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// listed are names in one line; none is "nothing".
func listed(names []string) string {
	return cmp.Or(printable(strings.Join(names, ", ")), "nothing")
}
