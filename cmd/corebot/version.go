package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/storage"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd, map[string]any{"version": versionText(), "go": runtime.Version(), "schema": storage.SchemaVersion()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "corebot %s (%s, schema %d)\n", versionText(), runtime.Version(), storage.SchemaVersion())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
