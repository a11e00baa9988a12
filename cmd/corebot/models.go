package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
)

// maxOffered bounds how many models of one provider are printed.
const maxOffered = 200

func newModels(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of the settings, and ask each provider which models it has",
		Long: `List the models of the settings, and ask each provider which models it has, for a few seconds. A
provider that does not answer is shown with its own words, and with the models of the settings. A
star marks what the settings have. Nothing is paid for: no model is asked.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			for _, p := range app.ListModels(cmd.Context(), c.LLM) {
				if asJSON {
					if err := printJSON(cmd, p); err != nil {
						return err
					}
					continue
				}
				printOffer(t, p)
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printOffer(t *teller, p app.Offer) {
	at := oneLine(cmp.Or(p.Endpoint, "built in"), 60)
	switch {
	case p.Error != "":
		t.line("%s (%s) could not be asked: %s", p.Provider, at, oneLine(p.Error, 300))
	case p.Endpoint == "":
		t.line("%s (%s)", p.Provider, at)
	default:
		t.line("%s (%s) has %d models", p.Provider, at, len(p.Offers))
	}
	for _, name := range p.Configured {
		note := ""
		if len(p.Offers) > 0 && !slices.Contains(p.Offers, name) {
			note = "  (not in the provider's list)"
		}
		t.line("* %s%s", oneLine(name, 100), note)
	}
	others := slices.DeleteFunc(slices.Clone(p.Offers), func(name string) bool {
		return slices.Contains(p.Configured, name)
	})
	for _, name := range others[:min(len(others), maxOffered)] {
		t.line("  %s", oneLine(name, 100))
	}
	if more := len(others) - maxOffered; more > 0 {
		t.line("  and %d more", more)
	}
}
