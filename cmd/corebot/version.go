package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/storage"
)

// versionLine is what `corebot version` and `corebot --version` print.
func versionLine() string {
	return fmt.Sprintf("corebot %s (%s, schema %d)", versionText(), runtime.Version(), storage.SchemaVersion())
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd, map[string]any{
					"version": versionText(), "go": runtime.Version(),
					"schema": storage.SchemaVersion(),
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
