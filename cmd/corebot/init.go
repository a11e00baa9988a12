package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
)

func newInit(s *shell) *cobra.Command {
	var webhook bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the home directory, and say which model was found",
		Long: `Make the home directory: a settings file with comments, a token for the webhook, and the workspace with its texts. What is there stays
as it is.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			made, err := app.Init(home, webhook)
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			t.line("home   %s", home)
			for _, path := range made {
				t.line("made   %s", path)
			}
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			name, why, err := app.FoundModel(cmd.Context(), c)
			if err != nil {
				return err
			}
			t.line("model  %s (%s)", name, why)
			next := "talk to it: corebot chat"
			if c.Webhook.Enabled {
				next = fmt.Sprintf("run it: corebot serve, then post to http://%s/webhook with the token of webhook.token", c.Webhook.Addr)
			}
			t.line("next   %s", next)
			return t.err
		},
	}
	cmd.Flags().BoolVar(&webhook, "webhook", false, "switch the webhook on in the settings file")
	return cmd
}
