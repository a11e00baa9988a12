package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
)

func newServe(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run everything that is configured, until SIGTERM",
		Long: `Run everything that is configured, until SIGTERM or Ctrl-C.

The first signal lets running turns finish within bus.drain; what is not finished then resumes at the next start. A second
signal ends at once, which is safe too.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			c, err := s.settings()
			if err != nil {
				return err
			}
			log, err := logger(c.Log)
			if err != nil {
				return err
			}
			a, err := app.New(cmd.Context(), c, app.Options{Version: versionText(), Log: log, Listen: true})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			log.Info().Str("home", c.Home).Str("version", versionText()).Msg("corebot runs")
			return a.Run(cmd.Context())
		},
	}
}
