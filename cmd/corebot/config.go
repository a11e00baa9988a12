package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
)

// newConfig is the group of commands about settings. more are those that need a daemon.
func newConfig(s *shell, more ...*cobra.Command) *cobra.Command {
	commands := append([]*cobra.Command{newConfigCheck(s), newConfigPrint(s), newConfigSchema()}, more...)
	return group("config", "Check, print and describe the settings", commands...)
}

// explain reads the home's settings with where each comes from.
func (s *shell) explain() (config.Explanation, error) {
	home, err := config.Home(s.home)
	if err != nil {
		return config.Explanation{}, err
	}
	return app.ExplainConfig(home)
}

// configVerdict is what `config check --json` prints.
type configVerdict struct {
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
	Warnings []string `json:"warnings"`
}

func newConfigCheck(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the settings can be used",
		Long: `Read the settings as "corebot serve" would: the settings file, the environment, and the files and
variables that secrets refer to. Prints "ok", or what is wrong and what to do. A home that does not
exist is a warning: a start makes it. Nothing is started, and nothing is changed.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnings, err := s.checkConfig()
			if asJSON {
				v := configVerdict{OK: err == nil, Hint: corebot.HintOf(err), Warnings: warnings}
				if err != nil {
					v.Error = err.Error()
				}
				return errors.Join(err, printJSON(cmd, v))
			}
			if err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), warnings)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checkConfig says whether the settings can be used, and of what they warn. The warnings are never nil.
func (s *shell) checkConfig() (warnings []string, err error) {
	e, err := s.explain()
	if err == nil {
		err = app.Check(e.Config)
	}
	if err != nil {
		return []string{}, err
	}
	warnings = append([]string{}, missingHome(e.Config.Home)...)
	warnings = append(warnings, e.Warnings...)
	if small := app.WarnOfRoom(e.Config); small != "" {
		warnings = append(warnings, small)
	}
	return warnings, nil
}

func newConfigPrint(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the settings in force and where each comes from",
		Long: `Print every setting as "corebot serve" would use it now, and whether it comes from the defaults, the
settings file or the environment. Secrets print as *** and, where they are references, with the
reference.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := s.explain()
			if err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), e.Warnings)
			if !asJSON {
				return printValues(cmd.OutOrStdout(), e.Values)
			}
			for _, v := range e.Values {
				if err := printJSON(cmd, v); err != nil {
					return err
				}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the settings file",
		Long: `Print a JSON Schema (draft 2020-12) of the settings file: every key with its type, its default and
what it is for. Editors use it to complete and check corebot.yaml.`,
		Example: "  corebot config schema > corebot.schema.json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return enc.Encode(app.ConfigSchema())
		},
	}
}

// missingHome warns of a home that is not there: a start makes it, and so it may as well be a misspelt one.
func missingHome(home string) []string {
	if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []string{fmt.Sprintf(
		"the home %s does not exist; these are the defaults and the environment (`corebot init` makes it)", home)}
}

func warn(w io.Writer, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintf(w, "corebot: warning: %s\n", printable(text))
	}
}

// printValues writes a line for each setting: key, value, source.
func printValues(w io.Writer, values []config.Value) error {
	keys, texts := 0, 0
	for _, v := range values {
		keys, texts = max(keys, len(v.Key)), max(texts, min(len(valueText(v)), widestColumn))
	}
	t := &teller{w: w}
	for _, v := range values {
		t.line("%-*s  %-*s  %s", keys, v.Key, texts, valueText(v), sourceText(v))
	}
	return t.err
}

// widestColumn keeps one long value from pushing the sources of all others out of sight.
const widestColumn = 40

func valueText(v config.Value) string {
	text := oneLine(fmt.Sprint(v.Value), 500)
	if text == "" {
		return "-"
	}
	return text
}

// sourceText says where a value comes from: the kind of place, the place, and behind a reference the place of the
// secret itself.
func sourceText(v config.Value) string {
	text := strings.TrimSpace(string(v.From) + " " + printable(v.Where))
	if v.Reference != "" {
		text += " (" + printable(v.Reference) + ")"
	}
	return text
}

func newConfigReload(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running Corebot read its settings again",
		Long: `Have the running Corebot read its settings again; for .mcp.json there is "corebot mcp reload", and
SIGHUP does both. It says which keys are in force now and which need a restart. Settings that are
wrong change nothing.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := s.daemon(cmd.Context(), "the next start reads the settings anyway")
			if err != nil {
				return err
			}
			r, err := operate.ReloadSettings.Call(cmd.Context(), daemon, struct{}{})
			switch {
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd, r)
			}
			t := &teller{w: cmd.OutOrStdout()}
			t.line("applied          %s", listed(r.Applied))
			t.line("needs a restart  %s", listed(r.Restart))
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// listed are names in one line; none is "nothing".
func listed(names []string) string {
	return cmp.Or(printable(strings.Join(names, ", ")), "nothing")
}
