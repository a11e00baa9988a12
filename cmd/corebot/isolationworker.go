package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/tools/isolation"
)

// newIsolationWorker is what Corebot executes itself as to run a program for a tool. It reads no settings and opens no home.
func newIsolationWorker() *cobra.Command {
	return &cobra.Command{
		Use:    isolation.WorkerCommand,
		Short:  "Run one program behind walls (used by Corebot itself)",
		Hidden: true,
		Args:   takes(),
		Run:    func(*cobra.Command, []string) { os.Exit(isolation.Work()) },
	}
}

// newIsolationTool is what a worker executes Corebot as, behind the walls, to do the work of a tool.
func newIsolationTool() *cobra.Command {
	return &cobra.Command{
		Use:    isolation.ToolCommand,
		Short:  "Do the work of one call of a tool behind walls (used by Corebot itself)",
		Hidden: true,
		Args:   takes(),
		Run:    func(*cobra.Command, []string) { os.Exit(app.ServeTool()) },
	}
}
