package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newTokens(s *shell) *cobra.Command {
	return group("tokens", "Add, list and revoke tokens of the HTTP API",
		newTokensAdd(s), newTokensList(s), newTokensRevoke(s))
}

func newTokensAdd(s *shell) *cobra.Command {
	var scopes, chats []string
	var as string
	var days int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token, and print its secret once",
		Long: `Make a token for a program that uses the HTTP API, and print its secret. Corebot stores a digest
of it only, so nobody can read it again. The program sends it as "Authorization: Bearer SECRET".

The scope read lets it look at everything that these commands show, also at what was said in chats.
The scope operate lets it change things, too: it decides on approvals and replays dead letters.
The scope send lets it send messages as the principal of --as into the chats of --chats, and read what
is said there. The principal is of the channel api. It gets its role as every other one:
"corebot admin grant api::NAME".`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := operate.NewToken{Name: args[0], Days: days, Chats: chats}
			if as != "" {
				p, err := corebot.ReadPrincipal(as)
				if err != nil || p != (corebot.Token{Sender: p.ID}).SendsAs() {
					return usage(cmd, fmt.Errorf("--as %q: want a principal of the API, such as api::grafana", as))
				}
				n.Sender = p.ID
			}
			for _, word := range scopes {
				scope, err := corebot.ParseScope(word)
				if err != nil {
					return usage(cmd, err)
				}
				n.Scopes = append(n.Scopes, scope)
			}
			return s.change(cmd, func(c control.Caller) error {
				made, err := operate.AddToken.Call(cmd.Context(), c, n)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, made)
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), made.Secret); err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.ErrOrStderr(), "this is shown once: keep it where the program reads it")
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{string(corebot.ScopeRead)},
		"what it may do: read, operate, send; several with commas")
	cmd.Flags().StringVar(&as, "as", "", "with the scope send: the principal of its messages, such as api::grafana")
	cmd.Flags().StringSliceVar(&chats, "chats", nil, "with the scope send: the chats it may talk in; '*' is all "+
		"(default none)")
	cmd.Flags().IntVar(&days, "days", 0, "for how many days it is in force; 0: until it is revoked")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newTokensList(s *shell) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, what they may do, and when they were used last",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := tokenTable.print(cmd, asJSON, 0, func(p operate.Part) (operate.Page[corebot.Token], error) {
				return look(s, cmd, operate.ListTokens, operate.TokenQuery{All: all, Part: p})
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also those that were revoked")
	return cmd
}

var tokenTable = listing[corebot.Token]{
	header: "NAME\tSCOPES\tSTATE\tMADE\tUSED",
	none:   "there is no token; `corebot tokens add NAME` makes one",
	cells: func(t corebot.Token) string {
		state, used := "in force", "never"
		switch {
		case !t.RevokedAt.IsZero():
			state = "revoked"
		case !t.InForce(time.Now()):
			state = "expired"
		case !t.ExpiresAt.IsZero():
			state = "until " + t.ExpiresAt.Local().Format(time.DateOnly)
		}
		if !t.UsedAt.IsZero() {
			used = t.UsedAt.Local().Format("2006-01-02 15:04")
		}
		words := make([]string, len(t.Scopes))
		for i, scope := range t.Scopes {
			words[i] = string(scope)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", oneLine(t.Name, corebot.MaxTokenName), strings.Join(words, ","), state,
			t.CreatedAt.Local().Format("2006-01-02 15:04"), used)
	},
}

func newTokensRevoke(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token, at once and for good",
		Args:  takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, func(c control.Caller) error {
				t, err := operate.RevokeToken.Call(cmd.Context(), c, operate.TokenName{Name: args[0]})
				if errors.Is(err, corebot.ErrNotFound) {
					return corebot.WithHint(err, "`corebot tokens list` shows the tokens that are in force")
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the token %s opens nothing any more\n", oneLine(t.Name, 60))
				return err
			})
		},
	}
}

func newConsole(s *shell) *cobra.Command {
	var asJSON, open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print an address that logs a browser in to the console, once",
		Long: `Print an address that logs a browser in to the console of the running Corebot. It works once, for
ten minutes; then the browser stays logged in for 30 days. Whoever uses it is the owner of the home,
as at this terminal. Behind a proxy, open the proxy's address with /login and type the code.

With --open a browser of this machine opens the address. Other users of the machine can then read
it in the list of processes until it is used.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := s.daemon(cmd.Context(), "corebot serve has the console, where console.enabled is true")
			if err != nil {
				return err
			}
			login, err := operate.AddLogin.Call(cmd.Context(), daemon, struct{}{})
			switch {
			case err != nil:
				return err
			case login.Address == "":
				return corebot.WithHint(errors.New("the Corebot that runs on this home has no console"),
					"set console.enabled, see that console.addr is free, and start corebot serve again")
			case asJSON:
				return printJSON(cmd, login)
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), login.Address); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "it works once, until %s; the code is %s\n",
				login.ExpiresAt.Local().Format("15:04"), login.Code)
			if err == nil && open {
				err = openBrowser(cmd.Context(), login.Address)
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&open, "open", false, "open it in a browser of this machine")
	cmd.AddCommand(newConsoleSessions(s), newConsoleRevoke(s))
	return cmd
}

// openBrowser has the desktop open an address. It does not wait for the browser.
func openBrowser(ctx context.Context, address string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if err := exec.CommandContext(context.WithoutCancel(ctx), program, address).Start(); err != nil {
		return corebot.WithHint(fmt.Errorf("open a browser: %w", err), "open the address by hand")
	}
	return nil
}

func newConsoleSessions(s *shell) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the browsers that are logged in to the console",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := sessionTable.print(cmd, asJSON, 0,
				func(p operate.Part) (operate.Page[corebot.ConsoleSession], error) {
					return look(s, cmd, operate.ListSessions, operate.SessionQuery{All: all, Part: p})
				})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also those that have ended")
	return cmd
}

var sessionTable = listing[corebot.ConsoleSession]{
	header: "ID\tSTATE\tLOGGED IN\tUSED\tBROWSER",
	none:   "no browser is logged in; `corebot console` prints an address to log in",
	cells: func(c corebot.ConsoleSession) string {
		state := "until " + c.ExpiresAt.Local().Format(time.DateOnly)
		switch {
		case !c.RevokedAt.IsZero():
			state = "logged out"
		case !c.InForce(time.Now()):
			state = "expired"
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", c.ID, state, c.CreatedAt.Local().Format("2006-01-02 15:04"),
			c.UsedAt.Local().Format("2006-01-02 15:04"), oneLine(c.Browser, 60))
	},
}

func newConsoleRevoke(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID...",
		Short: "Log browsers out of the console, at once",
		Args:  takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids := make([]int64, len(args))
			for i, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return usage(cmd, fmt.Errorf("%w: session %q: want its number", corebot.ErrInvalid, arg))
				}
				ids[i] = id
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.RevokeSessions.Call(cmd.Context(), c, operate.ByRules{IDs: ids})
				if errors.Is(err, corebot.ErrNotFound) {
					return corebot.WithHint(err, "`corebot console sessions` shows the ids")
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d logged out\n", done.Changed)
				return err
			})
		},
	}
}
