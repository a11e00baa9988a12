package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newApprovals(s *shell) *cobra.Command {
	return group("approvals", "List, approve and deny calls of tools that wait for an admin's approval",
		newApprovalsList(s), newApprovalsShow(s),
		newApprovalsResolve(s, "approve", "Let calls run, if nothing they were asked for has changed",
			corebot.ApprovalApproved),
		newApprovalsResolve(s, "deny", "Do not let calls run; the model is told, and their turns go on",
			corebot.ApprovalDenied))
}

func newApprovalsList(s *shell) *cobra.Command {
	var asJSON, all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the calls that wait, whole, oldest first",
		Long: `Show the calls that wait, whole, oldest first. Of the diff of a file it shows the beginning;
approvals show prints all of it. With --all it shows also how calls ended, newest first: approved,
denied, expired, or void, which is approved and then not made.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := eachPage(limit, func(p operate.Part) (operate.Page[operate.Approval], error) {
				return look(s, cmd, operate.ListApprovals, operate.ApprovalQuery{All: all, Part: p})
			}, func(found []operate.Approval, first, _ bool) error {
				return printApprovals(cmd, found, first, asJSON, maxListed)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also those that wait no longer")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

// maxListed is how much of a diff the list shows, in bytes.
const maxListed = 8 << 10

func newApprovalsShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show the calls of one request, with all of their diffs, and how they ended",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := corebot.ParseApprovalID(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			found, err := look(s, cmd, operate.ShowApproval, operate.ByID{ID: id})
			if errors.Is(err, corebot.ErrNotFound) {
				return corebot.WithHint(err, "`corebot approvals list --all` shows the ids")
			}
			if err != nil {
				return err
			}
			return printApprovals(cmd, found.Calls, true, asJSON, math.MaxInt)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printApprovals shows calls untruncated and with their secrets, unlike all else that is shown. An admin approves only
// what he has seen: a model could hide the worse half of a call behind the shape of a key. Control characters are made
// harmless here.
func printApprovals(cmd *cobra.Command, found []operate.Approval, first, asJSON bool, diff int) error {
	t := &teller{w: cmd.OutOrStdout()}
	for _, a := range found {
		if !asJSON {
			printApproval(t, a.Approval, diff)
		} else if err := printJSON(cmd, a.Row()); err != nil {
			return err
		}
	}
	if len(found) == 0 && first && !asJSON {
		t.line("no call waits for an approval")
	}
	return t.err
}

func printApproval(t *teller, a corebot.Approval, diff int) {
	of := ""
	if a.Calls > 1 { // the calls of a request are stored in a row
		of = fmt.Sprintf(", call %d of %d", a.ID-a.Request+1, a.Calls)
	}
	t.line("approval %d%s, %s, by the rule %s", a.Request, of, decisionOf(a), a.Rule)
	t.line("  chat: %s, message %s, on behalf of %s", a.Key, corebot.Plainly(a.MessageID), a.Principal)
	if a.Taint != "" {
		t.line("  read from outside: %s", corebot.Plainly(a.Taint))
	}
	if a.Instead != 0 {
		t.line("  instead of approval %d: %s after it was approved", a.Instead, corebot.Plainly(a.Because))
	}
	shown := a.Bound.String()
	if a.Change.Path != "" {
		shown += "\n" + a.Change.Show(diff, fmt.Sprintf("corebot approvals show %d", a.Request))
	}
	t.line("  %s", strings.ReplaceAll(shown, "\n", "\n  "))
}

// decisionOf says how an approval stands.
func decisionOf(a corebot.Approval) string {
	switch {
	case a.State == corebot.ApprovalAwaited:
		return "until " + a.ExpiresAt.Local().Format(time.DateTime)
	case a.State == corebot.ApprovalVoid:
		return fmt.Sprintf("void: %s; approved by %s", corebot.Plainly(a.Reason), a.By)
	case a.State == corebot.ApprovalApproved && !a.Ran:
		return fmt.Sprintf("approved by %s, not made yet", a.By)
	}
	return fmt.Sprintf("%s by %s on %s", a.State, a.By, a.ResolvedAt.Local().Format(time.DateTime))
}

func newApprovalsResolve(s *shell, name, short string, state corebot.ApprovalState) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids := make([]int64, len(args))
			for i, arg := range args {
				var err error
				if ids[i], err = corebot.ParseApprovalID(arg); err != nil {
					return usage(cmd, err)
				}
			}
			return s.change(cmd, func(c control.Caller) error {
				for _, id := range ids { // each is said as soon as it is done
					_, err := operate.ResolveApprovals.Call(cmd.Context(), c, operate.Resolution{
						IDs:   []int64{id},
						State: state,
					})
					if errors.Is(err, corebot.ErrNotFound) {
						return corebot.WithHint(err, "`corebot approvals list` shows the ids")
					}
					if err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %d\n", state, id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
