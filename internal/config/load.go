package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/corebot/corebot"
)

// Home finds the home directory: what was given, else COREBOT_HOME, else ~/.corebot.
func Home(given string) (string, error) {
	home := cmp.Or(given, os.Getenv("COREBOT_HOME"))
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", corebot.WithHint(fmt.Errorf("find the home directory: %w", err),
				"name one with --home or COREBOT_HOME")
		}
		home = filepath.Join(user, ".corebot")
	}
	return filepath.Abs(home)
}

// Load reads the settings of a home. A home without a file has the defaults. An error names the file or the variable,
// and the key; it never spells a secret. The networks are the kinds that can have accounts.
func Load(home string, networks ...Network) (Config, error) {
	e, err := Explain(home, networks...)
	return e.Config, err
}

// settings are values on their way into a [Config]. Each value in them has a known key and the type of its field.
type settings struct {
	values *viper.Viper
	leaves map[string]leaf   // of every known key
	from   map[string]origin // of every key that is set

	networks []Network
	drafts   []draft // accounts of networks
}

// origin is where a value was set.
type origin struct {
	source Source
	place  string // the path of the file, or the name of the variable
}

// newSettings begins with the defaults.
func newSettings() *settings {
	s := &settings{values: viper.New(), leaves: map[string]leaf{}, from: map[string]origin{}}
	for _, l := range leaves() {
		s.leaves[l.key] = l
		s.values.SetDefault(l.key, l.standard)
	}
	return s
}

// set takes a value for a known key. where names its source, for the error.
func (s *settings) set(where, key string, raw any, from origin) error {
	var value any
	if list, is := s.leaves[key].standard.(entryList); is {
		value, err := list.read(where, raw)
		if err == nil {
			s.values.Set(key, value)
			s.from[key] = from
		}
		return err
	}
	switch s.leaves[key].kind {
	case reflect.TypeFor[Providers]():
		list, err := readProviders(where, raw)
		if err != nil {
			return err
		}
		value = NewProviders(list...)
	case reflect.TypeFor[Grants]():
		list, err := readGrants(where, raw)
		if err != nil {
			return err
		}
		value = list
	default:
		var want *wanted
		if value, want = parse(raw, s.leaves[key].kind); want != nil {
			return corebot.WithHint(fmt.Errorf("%s is not %s", where, want.what), "write it as "+want.like)
		}
	}
	s.values.Set(key, value)
	s.from[key] = from
	return nil
}

// isKnown says whether a key is a setting.
func (s *settings) isKnown(key string) bool {
	_, known := s.leaves[key]
	return known
}

// envPrefix is before every setting in the environment: COREBOT_LLM_MODEL is llm.model.
const envPrefix = "COREBOT_"

// notSettings are variables with our prefix that are not settings. COREBOT_MCP_SERVER marks the programs that a Corebot
// runs as MCP servers, and one of them can be another Corebot.
var notSettings = []string{"COREBOT_HOME", "COREBOT_FAULT", "COREBOT_MCP_SERVER"}

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
		if end := endOf(strings.TrimPrefix(name, envPrefix), "_", names); end != "" {
			hint = fmt.Sprintf("did you mean %q?", envPrefix+end)
		}
		return corebot.WithHint(fmt.Errorf("environment: unknown variable %q", name), hint)
	}
	return nil
}

func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
