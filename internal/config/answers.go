package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/corebot/corebot"
)

// Asked is one setting of an account of a network, as a person is asked for it.
type Asked struct {
	Standard any // the default
	Secret   bool
	leaf     leaf
}

// Ask finds a setting of an account by its key.
func (n Network) Ask(key string) (a Asked, known bool) {
	a, known = n.Asks()[key]
	return a, known
}

// Asks are all settings of an account by their keys.
func (n Network) Asks() map[string]Asked {
	all := map[string]Asked{}
	for _, l := range n.leaves() {
		all[l.key] = Asked{l.standard, l.isSecret(), l}
	}
	return all
}

// Value is what a text that a person has written says of the setting, as a settings file has it.
func (a Asked) Value(text string) (any, error) {
	value, want := parse(text, a.leaf.kind)
	if want != nil {
		return nil, corebot.WithHint(fmt.Errorf("%q is not %s", text, want.what), "write it as "+want.like)
	}
	switch value.(type) {
	case bool, int, int64:
		return value, nil
	}
	return text, nil
}

// AccountOf is the account that the settings file of a home makes, under channels.KIND.NAME, after some changes of it.
// Its secrets are looked up.
func AccountOf(home string, n Network, name string, changes map[string]any) (Account, error) {
	said, err := Said(home)
	if err != nil {
		return Account{}, err
	}
	section, _ := asSection(said.Setting(accountKey(n.Kind, name)))
	for key, value := range changes {
		section = with(section, strings.Split(key, "."), value)
	}
	d := draft{network: n, name: name, common: standardCommon()}
	if err := d.read(d.key(), section); err != nil {
		return Account{}, err
	}
	stored, err := new(Explanation).resolveAccount(d, &resolver{home: home, variable: os.Getenv})
	if err != nil {
		return Account{}, err
	}
	return stored.account(), nil
}
