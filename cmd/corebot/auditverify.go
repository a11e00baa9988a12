package main

import (
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

func newAuditVerify(s *shell) *cobra.Command {
	var asJSON bool
	var head string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that nobody has changed the audit trail",
		Long: `Check that each event of the audit trail is what was written, and that none is missing: every event has a hash of itself and of the one before it.
Whoever can write the database can write a trail anew that fits together. Note the head that this prints, or that the log has after each retention pass,
where Corebot's machine cannot change it, and give it with --head: then nothing up to it can have changed.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var noted *corebot.AuditHead
			if head != "" {
				h, err := corebot.ParseAuditHead(head)
				if err != nil {
					return usage(cmd, err)
				}
				noted = &h
			}
			chain, err := look(s, cmd, operate.VerifyAudit, operate.Verification{Noted: noted})
			if err != nil {
				return err
			}
			return printChain(cmd, chain, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&head, "head", "", "a head that was noted before, EVENT:HASH")
	return cmd
}

func printChain(cmd *cobra.Command, c corebot.AuditChain, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, c)
	}
	t := &teller{w: cmd.OutOrStdout()}
	t.line("unbroken  %s", count(c.Events, "event"))
	if c.Past > 0 {
		t.line("begins    behind event %d", c.Past)
	}
	if c.Head.Hash != "" {
		t.line("head      %s", c.Head)
	}
	return t.err
}
