package channels

import (
	"fmt"

	"github.com/rs/zerolog"
)

// Network is a kind of channel that can have several accounts, each with settings of its own. A network is a folder
// with a settings struct and a constructor, and a line in the list of networks of package internal/app.
type Network struct {
	Kind string
	// Standard is the settings struct with its defaults. The settings of an account are under channels.KIND.ACCOUNT.
	// The fields are texts, whole numbers, durations, truth values and lists of texts, and structs of these. Tags
	// describe each field: mapstructure is its key and doc its line of documentation; min, oneof and secret:"yes" are
	// optional. A method Validate() error can refuse settings, with a hint.
	Standard any

	open func(decode func(into any) error, s Site) (Channel, error)
}

// Site is what the channel of an account is given beside its settings.
type Site struct {
	Account
	Log zerolog.Logger // names the account in every line
}

// NewNetwork makes a network of its settings struct and the constructor of its channels. The constructor connects to
// nothing: Run does.
func NewNetwork[S any](kind string, standard S, open func(settings S, s Site) (Channel, error)) Network {
	return Network{Kind: kind, Standard: standard, open: func(decode func(any) error, s Site) (Channel, error) {
		settings := standard
		if err := decode(&settings); err != nil {
			return nil, fmt.Errorf("read the settings of %s: %w", s.Account, err)
		}
		return open(settings, s)
	}}
}

// Open makes the channel of an account. decode fills its settings.
func (n Network) Open(decode func(into any) error, s Site) (Channel, error) { return n.open(decode, s) }
