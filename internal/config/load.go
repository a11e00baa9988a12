package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/corebot/corebot"
)

// envPrefix is before every setting in the environment: COREBOT_LLM_MODEL is llm.model.
const envPrefix = "COREBOT"

// notSettings are variables with our prefix that are not settings.
var notSettings = []string{"COREBOT_HOME", "COREBOT_FAULT"}

// fileNames are the settings files that a home may have, at most one of them.
var fileNames = []string{"corebot.yaml", "corebot.yml", "corebot.toml", "corebot.json"}

// standard are variables that other programs of this kind read too. Our own come first.
var standard = map[string]string{"llm.api_key": "OPENAI_API_KEY", "llm.base_url": "OPENAI_BASE_URL", "llm.model": "OPENAI_MODEL"}

// Home finds the home directory: what was given, else COREBOT_HOME, else ~/.corebot.
func Home(given string) (string, error) {
	home := cmp.Or(given, os.Getenv("COREBOT_HOME"))
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", corebot.WithHint(fmt.Errorf("find the home directory: %w", err), "name one with --home or COREBOT_HOME")
		}
		home = filepath.Join(user, ".corebot")
	}
	return filepath.Abs(home)
}

// Load reads the settings of a home. A home without a file has the defaults.
func Load(home string) (Config, error) {
	c := Defaults()
	c.Home = home
	known := keysOf(reflect.TypeFor[Config](), "")
	v := viper.New()
	for key, value := range flatten(reflect.ValueOf(c), "") {
		v.SetDefault(key, value)
	}
	if err := readFile(v, home, known); err != nil {
		return c, err
	}
	if err := bindEnvironment(v, os.Environ(), known); err != nil {
		return c, err
	}
	if err := v.UnmarshalExact(&c); err != nil {
		return c, corebot.WithHint(fmt.Errorf("read the settings: %w", plain(err)), "durations are like 6s or 15m, sizes are bytes")
	}
	return c, c.validate()
}

func readFile(v *viper.Viper, home string, known []string) error {
	var found []string
	for _, name := range fileNames {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			found = append(found, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return corebot.WithHint(fmt.Errorf("look for settings: %w", err), "make the home readable, or name another with --home")
		}
	}
	if len(found) > 1 {
		return corebot.WithHint(fmt.Errorf("%s has %s", home, strings.Join(found, " and ")), "keep one of them")
	}
	if len(found) == 0 {
		return nil
	}
	path := filepath.Join(home, found[0])
	file := viper.New() // on its own first: the defaults would hide what is not known
	file.SetConfigFile(path)
	if err := file.ReadInConfig(); err != nil {
		return corebot.WithHint(fmt.Errorf("read %s: %w", path, plain(err)), "nothing was started")
	}
	for _, key := range slices.Sorted(slices.Values(file.AllKeys())) {
		if !slices.Contains(known, key) {
			return unknown(path+": ", key, known)
		}
	}
	return v.MergeConfigMap(file.AllSettings())
}

// plain takes viper's and mapstructure's layout out of an error: one line, for people.
func plain(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

func bindEnvironment(v *viper.Viper, environ, known []string) error {
	variables := map[string]string{}
	for _, key := range known {
		name := variable(key)
		variables[name] = key
		if err := v.BindEnv(append([]string{key, name}, standardOf(key)...)...); err != nil {
			return err
		}
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix+"_") || slices.Contains(notSettings, name) {
			continue
		}
		if _, ok := variables[name]; !ok {
			names := make([]string, 0, len(known))
			for _, key := range known {
				names = append(names, variable(key))
			}
			return unknown("environment: ", name, names)
		}
	}
	return nil
}

func variable(key string) string {
	return envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func standardOf(key string) []string {
	if name := standard[key]; name != "" {
		return []string{name}
	}
	return nil
}

func unknown(where, key string, known []string) error {
	return corebot.WithHint(fmt.Errorf("%sunknown key %q", where, key), fmt.Sprintf("did you mean %q?", nearest(key, known)))
}

// keysOf lists the dotted keys of a settings struct.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("mapstructure")
		switch {
		case name == "-":
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, keysOf(f.Type, prefix+name+".")...)
		default:
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

// flatten gives every setting of a struct by its dotted key.
func flatten(v reflect.Value, prefix string) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Tag.Get("mapstructure")
		switch {
		case name == "-":
		case f.Type.Kind() == reflect.Struct:
			for k, x := range flatten(v.Field(i), prefix+name+".") {
				out[k] = x
			}
		default:
			out[prefix+name] = v.Field(i).Interface()
		}
	}
	return out
}
