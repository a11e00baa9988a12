package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// envPrefix is before every setting in the environment: COREBOT_LLM_MODEL is llm.model.
const envPrefix = "COREBOT_"

// notSettings are variables with our prefix that are not settings.
var notSettings = []string{"COREBOT_HOME", "COREBOT_FAULT"}

// readEnvironment sets what the environment says, over the file. An empty variable is as if it were not set.
func (s *settings) readEnvironment(environ []string) error {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	known := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(s.leaves)) {
		name := variable(key)
		known[name] = key
		if values[name] == "" {
			name = cmp.Or(s.leaves[key].also, name)
		}
		if values[name] == "" {
			continue
		}
		if err := s.set(name, key, values[name], origin{FromEnvironment, name}); err != nil {
			return err
		}
	}
	return checkNames(values, known)
}

// checkNames refuses a variable with our prefix that is no setting.
func checkNames(values, known map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(notSettings, name) || known[name] != "" {
			continue
		}
		names := []string{"HOME"}
		for k := range known {
			names = append(names, strings.TrimPrefix(k, envPrefix))
		}
		hint := meant(strings.TrimPrefix(name, envPrefix), names, func(near string) string { return envPrefix + near })
		return corebot.WithHint(fmt.Errorf("environment: unknown variable %q", name), hint)
	}
	return nil
}

func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
