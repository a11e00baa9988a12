package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newAdmin(s *shell) *cobra.Command {
	return group("admin", "Grant, revoke and list roles", newAdminGrant(s), newAdminRevoke(s), newAdminList(s))
}

const principalHelp = `A principal is channel:account:sender, as "corebot audit" and "corebot why" show it:
cli:local:1000 is the user with uid 1000 at the terminal, webhook::alice is the sender alice of the webhook.
Characters other than letters, digits, - and _ are written as %XX.`

func newAdminGrant(s *shell) *cobra.Command {
	var chat, role string
	cmd := &cobra.Command{
		Use:   "grant PRINCIPAL",
		Short: "Make a principal admin, everywhere or in one chat",
		Long: `Give a principal a role, everywhere or in one chat. In a chat for which the principal has a role of
its own, that role counts. The role holds from the next tool call on. The last admin cannot be made
normal. An admin of a channel that this version does not have can never speak, and does not count.

You can make somebody admin before his first message. A warning then says that he is not known yet,
and names the known sender who has nearly that name. A role of normal for somebody who is not known
is refused: it would change nothing.

` + principalHelp,
		Args: takes("PRINCIPAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			grant, err := s.parseGrant(cmd, args[0], chat, role)
			if err == nil {
				err = knownAccount(cmd, grant.Principal)
			}
			if err != nil {
				return err
			}
			if err := s.meets(cmd, grant); err != nil {
				return err
			}
			return s.grant(cmd, operate.GrantRole, grant, fmt.Sprintf("%s is %s", grant.Principal, grant.Role))
		},
	}
	cmd.Flags().StringVar(&chat, "chat", "", "in this chat only: its key, as corebot chats list shows it")
	cmd.Flags().StringVar(&role, "role", string(corebot.RoleAdmin), "admin or normal")
	return cmd
}

func newAdminRevoke(s *shell) *cobra.Command {
	var chat string
	cmd := &cobra.Command{
		Use:   "revoke PRINCIPAL",
		Short: "Take a grant away",
		Long: `Take a grant away, from the next tool call on. The last admin cannot be revoked. An admin of a channel
that this version does not have does not count.

` + principalHelp,
		Args: takes("PRINCIPAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			grant, err := s.parseGrant(cmd, args[0], chat, string(corebot.RoleNormal))
			if err != nil {
				return err
			}
			return s.grant(cmd, operate.RevokeGrant, grant, fmt.Sprintf("%s has no grant any more", grant.Principal))
		},
	}
	cmd.Flags().StringVar(&chat, "chat", "", "of this chat only")
	return cmd
}

// knownAccount refuses a principal that no sender of its channel can be: a grant to webhook:main:root would be
// nobody's. A grant to a channel that this version does not have only gets a warning.
func knownAccount(cmd *cobra.Command, p corebot.Principal) error {
	meant, known := app.SenderLike(p)
	switch {
	case !known:
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: no channel %s is known here: nobody is %s yet\n", p.Channel,
			p)
		return err
	case p != meant:
		return usage(cmd, fmt.Errorf("no sender is %s: want corebot admin grant %s", p, meant))
	}
	return nil
}

// meets looks at who a grant is for. A role that is given before the first message of its sender only gets a warning: a
// misspelt id looks the same. A misspelt id that shall lose a role is refused, since somebody else would keep his.
func (s *shell) meets(cmd *cobra.Command, g corebot.Grant) error {
	found, err := look(s, cmd, operate.FindPrincipal, operate.ByPrincipal{Principal: g.Principal})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without a database nobody has written
		return err
	}
	_, channel := app.SenderLike(g.Principal)
	near := ""
	if found.Near != "" {
		near = fmt.Sprintf("; did you mean %s?", found.Near)
	}
	switch {
	case !found.Known && g.Role == corebot.RoleNormal:
		return corebot.WithHint(fmt.Errorf("%s: %w: no message and no role of this sender is stored%s", g.Principal,
			corebot.ErrNotFound, near),
			"nothing has changed, and nobody needs the role normal in advance: `corebot admin list` shows the roles")
	case !found.Known && channel:
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "warning: no message of %s is stored yet%s The role holds from his "+
			"first message on; `corebot admin revoke` takes it away again\n", g.Principal, cmp.Or(near, "."))
	case found.Known && g.Chat == (corebot.Key{}):
		err = warnOfOthers(cmd, g, found.Roles)
	}
	return err
}

// warnOfOthers names the chats in which a role everywhere does not count, because its principal has another role there.
func warnOfOthers(cmd *cobra.Command, g corebot.Grant, roles []operate.Grant) error {
	for _, other := range roles {
		if other.Chat == "" || other.Role == string(g.Role) {
			continue
		}
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s stays %s in %s: `corebot admin revoke --chat` takes "+
			"that role away\n", g.Principal, other.Role, other.Chat); err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) parseGrant(cmd *cobra.Command, principal, chat, role string) (g corebot.Grant, err error) {
	if g.Principal, err = corebot.ReadPrincipal(principal); err != nil {
		return g, usage(cmd, err)
	}
	if g.Role, err = corebot.ParseRole(role); err != nil {
		return g, usage(cmd, err)
	}
	if chat != "" {
		if g.Chat, err = s.chat(cmd, chat); err != nil {
			return g, err
		}
	}
	return g, nil
}

func (s *shell) grant(cmd *cobra.Command, op operate.Operation[corebot.Grant, operate.Done], g corebot.Grant,
	said string,
) error {
	return s.change(cmd, func(c control.Caller) error {
		if _, err := op.Call(cmd.Context(), c, g); err != nil {
			if errors.Is(err, corebot.ErrNotFound) {
				err = corebot.WithHint(err, "`corebot admin list` shows the grants; one of a single chat is revoked "+
					"with --chat, and one everywhere without")
			}
			return err
		}
		if g.Chat != (corebot.Key{}) {
			said += " in " + g.Chat.String()
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), said)
		return err
	})
}

func newAdminList(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the grants",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := grantTable.print(cmd, asJSON, 0, func(p operate.Part) (operate.Page[operate.Grant], error) {
				return look(s, cmd, operate.ListGrants, p)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// grantedAt says since when a grant holds. A role by the kernel's word has no time.
func grantedAt(g operate.Grant) string {
	if g.At == nil {
		return "-"
	}
	return g.At.Local().Format(time.DateTime)
}

var grantTable = listing[operate.Grant]{
	header: "PRINCIPAL\tROLE\tWHERE\tBY\tAT",
	none:   "no grants, and the owner of the home is not known: nobody is admin (corebot admin grant PRINCIPAL)",
	cells: func(g operate.Grant) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", g.Principal, g.Role, cmp.Or(g.Chat, "everywhere"), g.By,
			grantedAt(g))
	},
}
