package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newPair(s *shell) *cobra.Command {
	return group("pair", "List, let in and refuse people who ask to talk", newPairList(s),
		newPairDecide(s, "approve", "Let in the sender who got a code", corebot.PairingPaired, "may talk now"),
		newPairDecide(s, "deny", "Refuse the sender who got a code; he gets no other", corebot.PairingDenied,
			"may not talk"),
		newPairRemove(s))
}

func newPairList(s *shell) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List who asks to talk, and the codes",
		Long: `List who asks to talk, and the codes. Where the access of an account is pairing, a sender whom nobody
has let in gets a code, which is good for an hour, and nothing else. An account has at most 3 codes at
once. Compare the code with what the person tells you: names are chosen by whoever writes.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := pairingTable.print(cmd, asJSON, 0, func(p operate.Part) (operate.Page[operate.Pairing], error) {
				return look(s, cmd, operate.ListPairings, operate.PairingQuery{All: all, Part: p})
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also who was let in or refused")
	return cmd
}

var pairingTable = listing[operate.Pairing]{
	header: "CODE\tSENDER\tNAME\tSTATE\tUNTIL\tBY",
	none:   "nobody asks to talk",
	cells: func(p operate.Pairing) string {
		code, until := p.Code, p.ExpiresAt.Local().Format(time.DateTime)
		if p.State != corebot.PairingOpen {
			code, until = "-", "-"
		} else if !p.ExpiresAt.After(time.Now()) {
			until = "expired"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", code, p.Principal, oneLine(p.Name, 30), p.State, until, p.By)
	},
}

func newPairDecide(s *shell, name, short string, state corebot.PairingState, said string) *cobra.Command {
	return &cobra.Command{
		Use: name + " CODE", Short: short, Args: takes("CODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := corebot.ParsePairingCode(args[0]); err != nil {
				return usage(cmd, err)
			}
			return s.change(cmd, func(c control.Caller) error {
				p, err := operate.DecidePairing.Call(cmd.Context(), c, operate.PairingDecision{
					Code:  args[0],
					State: state,
				})
				if errors.Is(err, corebot.ErrNotFound) {
					return corebot.WithHint(err, "`corebot pair list` shows the codes that are open")
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", p.Principal, said)
				return err
			})
		},
	}
}

func newPairRemove(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "remove PRINCIPAL",
		Short: "Forget what was decided about a sender: his next message gets a code again",
		Long:  "Forget what was decided about a sender. It holds from his next message on.\n\n" + principalHelp,
		Args:  takes("PRINCIPAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := corebot.ReadPrincipal(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			return s.change(cmd, func(c control.Caller) error {
				_, err := operate.RemovePairing.Call(cmd.Context(), c, p)
				if errors.Is(err, corebot.ErrNotFound) {
					return corebot.WithHint(err, "`corebot pair list --all` shows who was let in or refused")
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "nothing is known of %s any more\n", p)
				return err
			})
		},
	}
}
