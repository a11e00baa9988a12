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
		Long: `Make the home directory: a settings file with comments, a token for the webhook, and the workspace
with its texts. What is there stays as it is. With --webhook, a settings file that is there comes to
say that the webhook is enabled; all else in it stays, and a token or a secret, too.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := config.Home(s.home)
			if err != nil {
				return err
			}
			made, err := app.Init(home, webhook)
			t := &teller{w: cmd.OutOrStdout()}
			t.line("home   %s", home)
			for _, path := range made.Files {
				t.line("made   %s", path)
			}
			for _, path := range made.Changed {
				t.line("set    %s: the webhook is enabled", path)
			}
			if err != nil {
				return err
			}
			c, err := app.LoadConfig(home)
			if err != nil {
				return err
			}
			name, why, err := app.FoundModel(cmd.Context(), c)
			if err != nil {
				return err
			}
			t.line("model  %s (%s)", name, why)
			if webhook {
				s.tellWebhook(cmd, t, c, made)
			}
			t.line("next   %s", nextStep(c))
			return t.err
		},
	}
	cmd.Flags().BoolVar(&webhook, "webhook", false, "enable the webhook in the settings file")
	return cmd
}

// tellWebhook says what --webhook has come to.
func (s *shell) tellWebhook(cmd *cobra.Command, t *teller, c config.Config, made app.Made) {
	switch {
	case !c.Webhook.Enabled:
		t.line("note   the environment keeps the webhook off: COREBOT_WEBHOOK_ENABLED")
	case len(made.Files)+len(made.Changed) == 0:
		t.line("note   the webhook was enabled before; nothing was changed")
	default:
		if _, err := s.daemon(cmd.Context(), ""); err == nil {
			t.line("note   a Corebot runs on this home: it opens the webhook when it is started again")
		}
	}
}

// nextStep is what a newcomer can do now.
func nextStep(c config.Config) string {
	if !c.Webhook.Enabled {
		return "talk to it: corebot chat"
	}
	return fmt.Sprintf("run it: corebot serve, then post to http://%s/webhook with the token of %s", c.Webhook.Addr,
		config.TokenFile)
}
