package channels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// Kind describes a kind of channel: all that the rest of Corebot knows of the kind. Other code asks the description,
// and never compares the name of a channel. Abilities, such as [Pulled] and [Files], say what a running channel can do.
type Kind struct {
	Name string // in keys and principals
	// Account is the one account of the kind, which is always there. The accounts of a network are in the settings;
	// then Account is meant where none is named.
	Account string
	Network bool // its accounts are in the settings, and connect to a platform
	Daemon  bool // only `corebot serve` runs it

	// Owner says that only the owner of the home writes and reads there: see [corebot.OwnersChannel].
	Owner bool
	// People says that a person can stand behind a message. Without it, no message of the kind is interactive.
	People bool
	// Taints names the untrusted text that a turn of any of its messages has read; empty: none.
	Taints string
	// AnyAgent says that every agent can send messages into its chats. Otherwise only the agent that answers in a chat
	// can.
	AnyAgent bool
	// AnyChat says that a caller who asks for the messages of a chat gets them, even if nobody has spoken there yet.
	AnyChat bool

	// Redelivers is how long the platform may give a message again after its first delivery, for example when a restart
	// loses an acknowledgement. 0: it never does. Ids of messages are remembered for longer.
	Redelivers time.Duration

	// About says in a few words what an account of the network is.
	About string
	// Questions are what `corebot init` asks a person who wants an account of the network, in this order.
	Questions []Question
}

// Question is what a person is asked for one setting of an account. The settings struct says the rest. Enter takes the
// default of the setting. A secret is not shown, and kept in a file of its own.
type Question struct {
	Key  string // of the setting, such as token
	Text string // such as "Token of the bot"
	Hint string // where a person finds the answer; empty: everybody knows
}

// Usual is the account that is meant where none is named.
func (k Kind) Usual() Account { return Account{Kind: k.Name, Name: k.Account} }

// Network is a kind of channel that can have several accounts, each with settings of its own. A network is a folder
// with a settings struct and a constructor, and a line in the list of networks of package internal/app.
type Network struct {
	Kind
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
	Log   zerolog.Logger // names the account in every line
	Files FileOpener     // what is sent there
	Dir   string         // of the home: an account can keep files of its own there; empty: it cannot
}

// Open opens a file that is sent. A content that is not kept any more, or has more bytes than the platform takes, is a
// failure for good.
func (s Site) Open(ctx context.Context, k corebot.Key, p corebot.Part, limit int64) (*os.File, int64, error) {
	if s.Files == nil {
		return nil, 0, &corebot.Failure{Class: corebot.Permanent, Err: errors.New("there is no store of files")}
	}
	f, ref, err := s.Files.Open(ctx, k, p.Hash)
	switch {
	case errors.Is(err, corebot.ErrNotFound):
		return nil, 0, &corebot.Failure{Class: corebot.Permanent, Err: errors.New("its content is not kept any more")}
	case err != nil:
		return nil, 0, &corebot.Failure{Class: corebot.Cancelled, RetryAfter: Unsent, Err: err}
	case ref.Size > limit:
		_ = f.Close() // nothing was read
		return nil, 0, &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf(
			"it has %d bytes, and %s takes files of up to %d bytes", ref.Size, s.Kind, limit)}
	}
	return f, ref.Size, nil
}

// NewNetwork makes a network of its description, its settings struct and the constructor of its channels. The
// constructor connects to nothing: Run does.
func NewNetwork[S any](k Kind, standard S, open func(settings S, s Site) (Channel, error)) Network {
	k.Account, k.Network, k.Daemon = "main", true, true
	return Network{Kind: k, Standard: standard, open: func(decode func(any) error, s Site) (Channel, error) {
		settings := standard
		if err := decode(&settings); err != nil {
			return nil, fmt.Errorf("read the settings of %s: %w", s.Account, err)
		}
		return open(settings, s)
	}}
}

// Open makes the channel of an account. decode fills its settings.
func (n Network) Open(decode func(into any) error, s Site) (Channel, error) { return n.open(decode, s) }
