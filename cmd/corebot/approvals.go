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
		newApprovalsResolve(s, "deny", "Refuse calls; the model is told, and their turns go on",
			corebot.ApprovalDenied),
		newApprovalsRules(s))
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
	if a.Detached() {
		t.line("  its answer has come without this call, and the call can run later")
	}
	if a.Instead != 0 {
		t.line("  instead of approval %d: %s after it was approved", a.Instead, corebot.Plainly(a.Because))
	}
	shown := a.Bound.String()
	if a.Change.Path != "" {
		shown += "\n" + a.Change.Show(diff, fmt.Sprintf("corebot approvals show %d", a.Request))
	}
	t.line("  %s", strings.ReplaceAll(shown, "\n", "\n  "))
	if a.State == corebot.ApprovalAwaited && a.Binding.Kind != "" {
		t.line("  --session and --always also let run: %s", printable(a.Binding.String()))
	}
	if way := corebot.WayOut([]corebot.Approval{a}); way != "" {
		t.line("  %s", way)
	}
	if a.Lapsed != "" {
		t.line("  %s", printable(a.Lapsed))
	}
}

// decisionOf says how an approval stands.
func decisionOf(a corebot.Approval) string {
	switch {
	case a.State == corebot.ApprovalAwaited:
		return "until " + a.ExpiresAt.Local().Format(time.DateTime)
	case a.State == corebot.ApprovalExpired && a.Reason != "":
		return "given up: " + corebot.Plainly(a.Reason)
	case a.State == corebot.ApprovalVoid:
		return fmt.Sprintf("void: %s; approved by %s", corebot.Plainly(a.Reason), a.By)
	case a.State == corebot.ApprovalApproved && !a.Ran:
		return fmt.Sprintf("approved by %s, not made yet", a.By)
	}
	return fmt.Sprintf("%s by %s on %s", a.State, a.By, a.ResolvedAt.Local().Format(time.DateTime))
}

func newApprovalsResolve(s *shell, name, short string, state corebot.ApprovalState) *cobra.Command {
	var session, always, stop bool
	cmd := &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := approvalIDs(cmd, args)
			if err != nil {
				return err
			}
			r := operate.Resolution{State: state, Stop: stop}
			switch {
			case session:
				r.For = corebot.ForSession
			case always:
				r.For = corebot.ForAlways
			}
			return s.change(cmd, func(c control.Caller) error {
				for _, id := range ids { // each is said as soon as it is done
					r.IDs = []int64{id}
					if err := resolved(operate.ResolveApprovals.Call(cmd.Context(), c, r)); err != nil {
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
	if state == corebot.ApprovalApproved {
		cmd.Flags().BoolVar(&session, "session", false, "also calls such as these, until the session of the chat ends")
		cmd.Flags().BoolVar(&always, "always", false, "also calls such as these, until somebody revokes the rule")
		cmd.MarkFlagsMutuallyExclusive("session", "always")
	} else {
		cmd.Flags().BoolVar(&stop, "stop", false, "also stop the answer")
	}
	return cmd
}

func approvalIDs(cmd *cobra.Command, args []string) ([]int64, error) {
	ids := make([]int64, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = corebot.ParseApprovalID(arg); err != nil {
			return nil, usage(cmd, err)
		}
	}
	return ids, nil
}

// resolved adds what can be done about an error of a resolution.
func resolved(_ operate.Done, err error) error {
	if errors.Is(err, corebot.ErrNotFound) {
		return corebot.WithHint(err, "`corebot approvals list` shows the ids")
	}
	return err
}

func newApprovalsRules(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	list := func(cmd *cobra.Command, _ []string) error {
		_, err := eachPage(limit, func(p operate.Part) (operate.Page[operate.Rule], error) {
			return look(s, cmd, operate.ListRules, operate.RuleQuery{Part: p})
		}, func(found []operate.Rule, first, _ bool) error { return printRules(cmd, found, first, asJSON) })
		return err
	}
	cmd := group("rules", "List and revoke approvals that last", &cobra.Command{
		Use: "list", Short: "Show which calls run without another approval, oldest first", Args: takes(), RunE: list,
	}, newRulesRevoke(s))
	for _, c := range []*cobra.Command{cmd, cmd.Commands()[0]} {
		jsonFlag(c, &asJSON)
		limitFlag(c, &limit, 1000, "at most this many")
	}
	cmd.Long = `List and revoke approvals that last. A person makes them: "/approve ID session" holds until the
session of the chat ends, "/approve ID always" until somebody revokes it. A rule answers the
question whether a call needs an approval, for one principal in one chat. It gives no role.`
	cmd.Args, cmd.RunE = takes(), list
	return cmd
}

func newRulesRevoke(s *shell) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID...", Short: "Have calls asked about again", Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := approvalIDs(cmd, args)
			if err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				for _, id := range ids {
					_, err := operate.RevokeRules.Call(cmd.Context(), c, operate.ByRules{IDs: []int64{id}})
					if errors.Is(err, corebot.ErrNotFound) {
						return corebot.WithHint(err, "it was revoked, or its session has ended; `corebot approvals "+
							"rules` lists those that count")
					}
					if err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "revoked %d\n", id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func printRules(cmd *cobra.Command, found []operate.Rule, first, asJSON bool) error {
	t := &teller{w: cmd.OutOrStdout()}
	for _, r := range found {
		if asJSON {
			if err := printJSON(cmd, r.Row()); err != nil {
				return err
			}
			continue
		}
		t.line("rule %d: %s", r.ID, printable(r.Binding.String()))
		t.line("  for %s in the chat %s, %s", r.Principal, r.Key, r.Lasts())
		t.line("  made by %s on %s, in answer to approval %d", r.By, r.CreatedAt.Local().Format(time.DateTime),
			r.Request)
	}
	if len(found) == 0 && first && !asJSON {
		t.line("no approval lasts: each call is asked about")
	}
	return t.err
}
