package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/spf13/viper"

	"github.com/corebot/corebot"
)

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

// Load reads the settings of a home. A home without a file has the defaults. An error names the file or the variable, and
// the key.
func Load(home string) (Config, error) {
	c := Defaults()
	c.Home = home
	s := newSettings(c)
	if err := s.readFile(home); err != nil {
		return c, err
	}
	if err := s.readEnvironment(os.Environ()); err != nil {
		return c, err
	}
	if err := s.values.UnmarshalExact(&c); err != nil {
		return c, fmt.Errorf("read the settings: %w", err)
	}
	return c, c.validate()
}

// settings are values on their way into a [Config]. Whatever is set in them has a known key and the type of its field.
type settings struct {
	values *viper.Viper
	types  map[string]reflect.Type // of every known key, such as "bus.lease"
}

// newSettings begins with defaults.
func newSettings(defaults Config) *settings {
	s := &settings{values: viper.New(), types: map[string]reflect.Type{}}
	s.declare(reflect.ValueOf(defaults), "")
	return s
}

// declare makes the fields of a struct known.
func (s *settings) declare(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := prefix + f.Tag.Get("mapstructure")
		switch {
		case key == "-":
		case f.Type.Kind() == reflect.Struct:
			s.declare(v.Field(i), key+".")
		default:
			s.types[key] = f.Type
			s.values.SetDefault(key, v.Field(i).Interface())
		}
	}
}

// set takes a value for a known key. where names its source, for the error.
func (s *settings) set(where, key string, raw any) error {
	value, want := parse(raw, s.types[key])
	if want != nil {
		return corebot.WithHint(fmt.Errorf("%s is not %s", where, want.what), "write it as "+want.like)
	}
	s.values.Set(key, value)
	return nil
}
