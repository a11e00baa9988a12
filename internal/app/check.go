package app

import (
	"context"
	"path/filepath"

	"github.com/corebot/corebot/internal/config"
)

// Check says whether a start gets past the settings. Loading has checked each by itself; this asks the parts that know what they mean. Nothing is
// started, opened or asked for over a network.
func Check(c config.Config) error {
	if _, err := Rules(c); err != nil {
		return err
	}
	if _, err := bootstrap(c.Admin); err != nil {
		return err
	}
	if err := isolationOptions(c).Check(filepath.Join(c.Home, "workspace")); err != nil {
		return err
	}
	models := c.LLM
	models.Discover = false // that a server runs on this machine is nothing that settings say
	_, err := chooseModel(context.Background(), models, nil)
	return err
}
