package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/workspace"
)

// Check says whether a start gets past the settings. Loading has checked each by itself; this asks the parts that know what they mean. Nothing is
// started, opened or asked for over a network.
func Check(c config.Config) error {
	if err := checkOwner(places(c)...); err != nil {
		return err
	}
	for _, entry := range c.AgentList() {
		if _, err := rulesOf(entry, c); err != nil {
			return err
		}
	}
	if _, err := bootstrap(c.Admin); err != nil {
		return err
	}
	for _, p := range places(c) {
		if err := isolationOptions(c).Check(p.workspace()); err != nil {
			return err
		}
	}
	models := c.LLM
	models.Discover = false // that a server runs on this machine is nothing that settings say
	_, err := chooseModel(context.Background(), models, nil)
	return err
}

// trusted are the parts of a home that say what Corebot does and whom it trusts. The settings and the files of secrets are
// held to the same rules where they are read. Every prompt takes the pages of the workspace for the operator's word.
func trusted(p place) []string {
	all := []string{p.home, MCPFile(p.home), DataDir(p.home), filepath.Join(p.home, "events"), p.dir(), p.mcpFile()}
	for _, name := range slices.Concat([]string{""}, workspace.Protected(), workspace.Pages()) {
		all = append(all, filepath.Join(p.workspace(), name))
	}
	return all
}

// checkOwner refuses a home that others can change. What does not exist yet is made so that they cannot; what cannot be
// looked at fails where it is used.
func checkOwner(all ...place) error {
	for _, p := range all {
		for _, path := range trusted(p) {
			if err := owned.Check(path); errors.Is(err, owned.ErrNotOurs) {
				return fmt.Errorf("the home: %w", err)
			}
		}
	}
	return nil
}
