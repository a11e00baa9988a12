package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/storage"
)

func newApprovals(s *shell) *cobra.Command {
	return group("approvals", "List, approve and deny calls of tools that wait for an admin's word", newApprovalsList(s),
		newApprovalsResolve(s, "approve", "Let calls run, if nothing they were asked for has changed", corebot.ApprovalApproved),
		newApprovalsResolve(s, "deny", "Do not let calls run; the model is told, and their turns go on", corebot.ApprovalDenied))
}

// approvalRow is the contract's JSON of one call that waits. All calls of one answer have one id: they are approved, or
// denied, together.
type approvalRow struct {
	ID        int64           `json:"id"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"` // whole
	Principal string          `json:"principal"`
	ChatID    string          `json:"chatId"`
	CreatedAt time.Time       `json:"createdAt"`
	ExpiresAt time.Time       `json:"expiresAt"`
}

func newApprovalsList(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the calls that wait, whole, oldest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			waiting, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.Approval, error) {
				return storage.NewApprovals(db).Awaited(ctx, limit)
			})
			if err != nil {
				return err
			}
			return printApprovals(cmd, waiting, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

// printApprovals shows calls untruncated and, unlike all else that is shown, with what looks like a secret: who says yes has seen all of it, and a model could
// hide the better half of a call behind the shape of a key. The characters of a terminal are made harmless here.
func printApprovals(cmd *cobra.Command, waiting []corebot.Approval, asJSON bool) error {
	t := &teller{w: cmd.OutOrStdout()}
	for i, a := range waiting {
		call := 1
		for before := i - 1; before >= 0 && waiting[before].Request == a.Request; before-- {
			call++
		}
		if asJSON {
			row := approvalRow{a.Request, a.Bound.Tool, redact.Shallow(a.Bound.Args), a.Principal.String(), a.Key.Chat, a.CreatedAt, a.ExpiresAt}
			if err := printJSON(cmd, row); err != nil {
				return err
			}
			continue
		}
		of := ""
		if a.Calls > 1 {
			of = fmt.Sprintf(", call %d of %d", call, a.Calls)
		}
		t.line("approval %d%s, until %s, by the rule %s", a.Request, of, a.ExpiresAt.Local().Format(time.DateTime), a.Rule)
		t.line("  chat: %s, message %s, on behalf of %s", a.Key, corebot.Plainly(a.MessageID), a.Principal)
		if a.Taint != "" {
			t.line("  read from outside: %s", corebot.Plainly(a.Taint))
		}
		t.line("  %s", strings.ReplaceAll(a.Bound.String(), "\n", "\n  "))
	}
	if len(waiting) == 0 && !asJSON {
		t.line("nothing waits for an admin's word")
	}
	return t.err
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
					_, err := control.Call[app.Done](cmd.Context(), c, app.OpResolve, app.Resolution{IDs: []int64{id}, State: state})
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
