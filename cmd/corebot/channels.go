package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/operate"
)

func newChannels(s *shell) *cobra.Command {
	return group("channels", "Show the channels of the running Corebot", newChannelsList(s))
}

func newChannelsList(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list",
		Short: "List every account of every channel: its state, since when, last event, last error, and what waits " +
			"to be sent",
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
			for _, c := range all {
				if asJSON {
					if err := printJSON(cmd, c); err != nil {
						return err
					}
					continue
				}
				event := "-"
				if !c.LastEvent.IsZero() {
					event = c.LastEvent.Format(time.DateTime)
				}
				t.line("%-16s %-9s since %s  last event %-19s  %d to send  %s", c.Name(), c.State,
					c.Since.Format(time.DateTime),
					event, c.Backlog, cmp.Or(oneLine(c.LastError, 80), "-"))
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
