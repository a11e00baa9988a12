package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/operate"
)

func newChannels(s *shell) *cobra.Command {
	return group("channels", "Show, check and restart the accounts of channels",
		newChannelsList(s), newChannelsCheck(s), newChannelsRestart(s))
}

// parseAccount reads KIND or KIND:ACCOUNT.
func parseAccount(text string) channels.Account {
	kind, name, _ := strings.Cut(text, ":")
	return channels.Account{Kind: kind, Name: name}
}

var errCheckFailed = errors.New("a check has failed")

func newChannelsCheck(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [KIND[:ACCOUNT]]",
		Short: "Try the settings of accounts: connect once and say as whom",
		Long: `Try the settings of every account, or of one, as the next start would use them. A running Corebot is
not asked and not disturbed. Nothing is sent to a chat.`,
		Args: func(cmd *cobra.Command, args []string) error {
			return takes([]string{"KIND[:ACCOUNT]"}[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			meant := func(channels.Account) bool { return true }
			if len(args) == 1 {
				want := parseAccount(args[0])
				meant = func(a channels.Account) bool { return a == want || want.Name == "" && a.Kind == want.Kind }
			}
			all := app.CheckAccounts(cmd.Context(), c, meant)
			if len(all) == 0 {
				return corebot.WithHint(fmt.Errorf("account %s: %w", args[0], corebot.ErrNotFound),
					"`corebot channels check` without an argument checks all that are in the settings")
			}
			return printChecked(cmd, all, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printChecked(cmd *cobra.Command, all []app.Checked, asJSON bool) error {
	t, failed := &teller{w: cmd.OutOrStdout()}, false
	for _, c := range all {
		failed = failed || !c.OK
		switch {
		case asJSON:
			if err := printJSON(cmd, c); err != nil {
				return err
			}
		case c.OK:
			t.line("%-16s ok      %s", c.Account, printable(c.Says))
		default:
			t.line("%-16s failed  %s", c.Account, oneLine(c.Error, 300))
			if c.Advice != "" {
				t.line("%-16s         hint: %s", "", oneLine(c.Advice, 300))
			}
		}
	}
	if failed && t.err == nil {
		return errCheckFailed
	}
	return t.err
}

func newChannelsRestart(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "restart KIND[:ACCOUNT]",
		Short: "Have the running Corebot end an account's connection and begin it anew",
		Long: `Have the running Corebot end the connection of one account and begin it anew, at once. What was
received stays, and what waits to be sent waits. Changed settings need a start of Corebot.`,
		Args: takes("KIND[:ACCOUNT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := s.daemon(cmd.Context(), "run it: corebot serve")
			if err != nil {
				return err
			}
			kind, name, _ := strings.Cut(args[0], ":")
			account := operate.AccountName{Kind: kind, Account: name}
			if _, err := operate.RestartChannel.Call(cmd.Context(), daemon, account); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is run anew  (corebot channels list)\n", account)
			return err
		},
	}
}

func newChannelsList(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list",
		Short: "List every account of every channel: its state, since when, last event, last error, and what waits " +
			"to be sent; of Matrix also whether encrypted rooms are read",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := s.daemon(cmd.Context(), "run it: corebot serve")
			if err != nil {
				return err
			}
			all, err := gather(func(p operate.Part) (operate.Page[operate.ChannelAccount], error) {
				return operate.ListChannels.Call(cmd.Context(), daemon, p)
			})
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			failed := ""
			for _, c := range all {
				if c.State == string(channels.Failed) {
					failed = c.Name()
				}
				if asJSON {
					if err := printJSON(cmd, c); err != nil {
						return err
					}
					continue
				}
				event, since := "-", "-"
				if !c.Since.IsZero() {
					since = c.Since.Format(time.DateTime)
				}
				if !c.LastEvent.IsZero() {
					event = c.LastEvent.Format(time.DateTime)
				}
				note := ""
				if c.Note != "" {
					note = "  (" + oneLine(c.Note, 100) + ")"
				}
				t.line("%-16s %-9s since %-19s  last event %-19s  %d to send  %s%s", c.Name(), c.State,
					since, event, c.Backlog, cmp.Or(oneLine(c.LastError, 160), "-"), note)
			}
			if failed != "" && !asJSON {
				t.line("`corebot channels check %s` says what mends an account that has failed", failed)
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
