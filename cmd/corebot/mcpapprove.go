package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newMCPShow(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "show SERVER",
		Short: "Print what an MCP server says of its tools, as models are shown it",
		Long: `Print what an MCP server says of its tools, as models are shown it: description and schema, and
whether they are trusted: approved by an operator, or, by default, as the server's first listing had
them. The running Corebot knows. "corebot mcp approve" takes the fingerprint that is printed with
it: it covers all that the server says of a tool, its annotations and its output schema too.`,
		Args: takes("SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			of := operate.ToolsQuery{ByAgent: operate.ByAgent{Agent: agent}, Server: args[0]}
			tools, err := s.describe(cmd, of)
			if err != nil {
				return err
			}
			return printDescriptions(cmd, of, tools, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}

// describe asks the running Corebot what a server says of its tools.
func (s *shell) describe(cmd *cobra.Command, of operate.ToolsQuery) (all operate.MCPTools, err error) {
	daemon, err := s.daemon(cmd.Context(), "start one: it connects to the servers")
	if err != nil {
		return all, err
	}
	whole := ""
	rows, err := gather(func(p operate.Part) (_ operate.Page[operate.MCPTool], err error) {
		of.Part = p
		all, err = operate.ShowServer.Call(cmd.Context(), daemon, of)
		if p.After != "" && err == nil && all.Whole != whole {
			err = fmt.Errorf("%w: the server %q lists other tools by now", corebot.ErrInvalid, of.Server)
		}
		whole = all.Whole
		return all.Page, err
	})
	all.Rows = rows
	if errors.Is(err, corebot.ErrNotFound) {
		err = corebot.WithHint(err, "`corebot mcp list` shows which there are")
	}
	return all, err
}

func printDescriptions(cmd *cobra.Command, of operate.ToolsQuery, tools operate.MCPTools, asJSON bool) error {
	t := &teller{w: cmd.OutOrStdout()}
	for _, d := range tools.Rows {
		if asJSON {
			if err := printJSON(cmd, d); err != nil {
				return err
			}
			continue
		}
		printDescription(t, d)
	}
	if len(fingerprints(tools.Rows)) > 0 && !asJSON {
		t.line("to approve all of this, and nothing else: corebot mcp approve%s %s %s", withAgent(of.Agent), of.Server,
			tools.Whole)
	}
	return t.err
}

func printDescription(t *teller, d operate.MCPTool) {
	state := "not approved"
	switch {
	case d.Unusable != "":
		state = "not offered: " + printable(d.Unusable)
	case d.Trusted:
		state = "trusted"
	}
	t.line("%s (%s)", d.Name, state)
	if d.Unusable != "" {
		return
	}
	switch {
	case d.ReadOnly:
		t.line("    read-only: you say so")
	case d.Hint:
		t.line("    read-only: the server says so, which decides nothing; `mcp approve --read-only` says so too")
	}
	if d.Egress {
		t.line("    takes addresses: it can carry data out")
	}
	for line := range strings.Lines(printable(d.Text)) {
		t.line("    %s", strings.TrimSuffix(line, "\n"))
	}
	t.line("    arguments: %s", printable(string(d.Schema)))
	t.line("    fingerprint: %s", d.Fingerprint)
}

// withAgent is the flag that means an agent, in a command that is printed; empty for none.
func withAgent(agent string) string {
	if agent == "" {
		return ""
	}
	return " --agent " + agent
}

func newMCPApprove(s *shell) *cobra.Command {
	var agent string
	var readOnly bool
	cmd := &cobra.Command{
		Use:   "approve SERVER[/TOOL] FINGERPRINT",
		Short: "Take the tools of an MCP server as they were read",
		Long: `Approve one tool of an MCP server, or all of them, as "corebot mcp show SERVER" printed them: the
fingerprint stands for exactly that. If the server describes a tool differently by now, nothing is
approved.

The server writes the description of its tools, and the model reads it in each turn that is offered
the tool. Until an operator approves it, a tool that is new or has changed taints such a turn: calls
that not everyone may make then wait for an admin. With mcp.trust_on_first_use: false every tool
does. With mcp.pin_tools, or pinTools in the entry, a tool that is not approved is not even offered.
"corebot mcp list" shows which tools are not approved.

With --read-only you also declare that the tool only reads: its calls then run in tainted turns. For
a whole server the declaration holds for the tools that the server itself calls read-only; "mcp show"
prints which. The declaration is for this fingerprint, and an approval without the flag ends it. A
tool that takes addresses still waits for an admin in tainted turns.`,
		Args: takes("SERVER[/TOOL]", "FINGERPRINT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, tool, one := strings.Cut(args[0], "/")
			if server == "" || one && tool == "" {
				return usage(cmd, fmt.Errorf("%q names no server, or no tool", args[0]))
			}
			if len(args[1]) != 64 || strings.Trim(args[1], "0123456789abcdef") != "" {
				return usage(cmd, fmt.Errorf("%q is no fingerprint: want 64 hexadecimal digits, as `corebot mcp show "+
					"%s` prints them", args[1], server))
			}
			by := operate.ByAgent{Agent: agent}
			what := operate.ToolApproval{ByAgent: by, Server: server, Fingerprints: map[string]string{tool: args[1]}}
			if one && readOnly {
				what.ReadOnly = []string{tool}
			}
			if !one {
				found, err := s.shown(cmd, operate.ToolsQuery{ByAgent: by, Server: server}, args[1])
				if err != nil {
					return err
				}
				what.Fingerprints = fingerprints(found)
				for _, t := range found {
					if readOnly && t.Unusable == "" && (t.Hint || t.ReadOnly) {
						what.ReadOnly = append(what.ReadOnly, t.Tool)
					}
				}
			}
			return s.change(cmd, func(c control.Caller) error { return approveTools(cmd, c, what) })
		},
	}
	agentFlag(cmd, &agent)
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "also declare that the tool only reads")
	return cmd
}

// shown are the tools of a server, if that of all of them is still the one that was printed. Should
// one change after that, the approval is refused for it.
func (s *shell) shown(cmd *cobra.Command, of operate.ToolsQuery, whole string) ([]operate.MCPTool, error) {
	tools, err := s.describe(cmd, of)
	if err != nil {
		return nil, err
	}
	if tools.Whole != whole {
		return nil, corebot.WithHint(fmt.Errorf("%w: the tools of the MCP server %q are not what this fingerprint "+
			"was printed for", corebot.ErrInvalid, of.Server),
			"they have changed since, or the fingerprint is of one tool: read `corebot mcp show "+of.Server+"` again")
	}
	return tools.Rows, nil
}

// fingerprints are those of the tools that can be approved, by the names that their server gives them.
func fingerprints(tools []operate.MCPTool) map[string]string {
	each := map[string]string{}
	for _, t := range tools {
		if t.Unusable == "" {
			each[t.Tool] = t.Fingerprint
		}
	}
	return each
}

func approveTools(cmd *cobra.Command, c control.Caller, what operate.ToolApproval) error {
	done, err := operate.ApproveTools.Call(cmd.Context(), c, what)
	if errors.Is(err, corebot.ErrNotFound) {
		err = corebot.WithHint(err, "a server is known once it was connected; `corebot mcp list` shows them")
	}
	if err != nil {
		return err
	}
	t := &teller{w: cmd.OutOrStdout()}
	t.line("%s approved", count(int64(done.Changed), "tool"))
	if len(what.ReadOnly) > 0 {
		slices.Sort(what.ReadOnly)
		t.line("declared to only read: %s", printable(strings.Join(what.ReadOnly, ", ")))
	}
	return t.err
}
