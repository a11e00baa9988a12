package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/demo"
)

func newDemo() *cobra.Command {
	var asJSON, keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Break Corebot in every way that it promises to stand, and count what is left",
		Long: `Run Corebot as a child process on a home of its own, with the offline model, and be unkind to it:
send each message twice, kill the process with SIGKILL while messages come and in the middle of a
turn whose tool calls write to a file, refuse the model's key. Then count replies, lines, dead
letters and audit events beside what Corebot promises. It takes a few seconds, listens on loopback
only, and changes no other home. A wrong count ends it with exit code 1.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, asJSON, keep) },
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the home, to look at it with the other commands")
	return cmd
}

func runDemo(cmd *cobra.Command, asJSON, keep bool) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program's own file: %w", err)
	}
	dir, err := os.MkdirTemp("", "corebot-demo-")
	if err != nil {
		return corebot.WithHint(fmt.Errorf("make a home for the demo: %w", err),
			"set the environment variable TMPDIR to a directory in which you may write")
	}
	if !keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	t := &teller{w: cmd.OutOrStdout()}
	if !asJSON {
		t.line("Corebot runs as a child process, with the offline model, on a home of its own: %s", demo.Home(dir))
	}
	scenes := 0
	report, err := demo.Run(cmd.Context(), demo.Options{
		Binary: binary, Dir: dir,
		Tell: func(s demo.Scene) error {
			scenes++
			if asJSON {
				return printJSON(cmd, s)
			}
			return s.Print(cmd.OutOrStdout(), scenes)
		},
	})
	if err != nil {
		return errors.Join(err, t.err)
	}
	if asJSON {
		err = printJSON(cmd, report)
	} else {
		err = report.Print(cmd.OutOrStdout())
	}
	if keep && !asJSON {
		t.line("The home is kept. Look at it, such as with: corebot --home %s why notes-1",
			filepath.ToSlash(demo.Home(dir)))
	}
	if report.Wrong > 0 {
		err = errors.Join(err, fmt.Errorf("%s not as promised", count(int64(report.Wrong), "count")))
	}
	return errors.Join(err, t.err)
}
