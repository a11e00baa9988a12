package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Corebot is the process that runs on a home: what it alone knows and can do.
type Corebot interface {
	Hello(ctx context.Context) (Hello, error)
	ReloadSettings(ctx context.Context) (Reloaded, error)
	// Channels tells how every account of every channel is doing, by its name.
	Channels(ctx context.Context) ([]ChannelAccount, error)
	// RestartChannel ends the connection of an account and has it begun anew.
	RestartChannel(ctx context.Context, a AccountName) error
	// ServerTools gives what an MCP server of an agent says of its tools, and one fingerprint over all of them.
	ServerTools(ctx context.Context, agent, server string) (tools []MCPTool, whole string, err error)
	ReloadServers(ctx context.Context, agent string) (MCPServers, error)
	// Login is the address at which a code logs a browser in to the console; empty: there is no console.
	Login(code string) string
}

// Contexts says what the next request of a chat would carry; only a running Corebot knows.
type Contexts interface {
	Context(ctx context.Context, k corebot.Key) (Context, error)
}

// Vitals says how a running Corebot is doing.
type Vitals interface {
	Health(ctx context.Context) Health
}

// The operations that need the running Corebot.
var (
	Greet          = runs("hello", (*Service).Greet)
	ReadHealth     = runs("health", (*Service).ReadHealth)
	ReloadSettings = runs("config.reload", (*Service).ReloadSettings)
	ReadContext    = runs("chats.context", (*Service).ReadContext)
	ListChannels   = runs("channels.list", (*Service).ListChannels)
	RestartChannel = runs("channels.restart", (*Service).RestartChannel)
)

type (
	// Hello tells a process which Corebot it has reached.
	Hello struct {
		Model  string `json:"model"`
		Daemon bool   `json:"daemon"` // it serves until it is told to stop, and does not end with a terminal
		PID    int    `json:"pid"`
		// Console is where the console listens; empty: nowhere.
		Console string `json:"console,omitempty"`
		// Passing says that it ends when one message has its answer.
		Passing bool `json:"passing,omitempty"`
	}
	// Health says how a running Corebot is doing. A list without entries: there is nothing to say.
	Health struct {
		// Stuck are the parts that stand still. A new start is what mends them.
		Stuck []string `json:"stuck"`
		// NotReady are the reasons why messages cannot be accepted or answered now, as /ready tells them.
		NotReady []string `json:"notReady"`
		// Degraded is what is wrong although messages are accepted and answered, with what the component knows of it.
		Degraded []string `json:"degraded"`
	}
	// ContextQuery asks for what the next request of a chat would carry.
	ContextQuery struct {
		Key corebot.Key `json:"key"`
	}
	// Context is what the next request of a chat would carry, also in words.
	Context struct {
		corebot.ContextUse
		Text string `json:"text"`
	}
	// Reloaded says what a reload did.
	Reloaded struct {
		Applied []string `json:"applied"` // keys whose new values are in force
		Restart []string `json:"restart"` // keys that changed and need a restart
	}
	// AccountName names one account of a channel.
	AccountName struct {
		Kind    string `json:"kind"`
		Account string `json:"account"` // empty where a kind has one account without a name
	}
	// ChannelAccount is how one account of a channel is doing.
	ChannelAccount struct {
		Kind      string    `json:"kind"`
		Account   string    `json:"account"` // empty where a kind has one account without a name
		State     string    `json:"state"`
		Since     time.Time `json:"since,omitzero"`
		LastEvent time.Time `json:"lastEvent,omitzero"` // a message was accepted, or one was sent
		LastError string    `json:"lastError,omitempty"`
		Note      string    `json:"note,omitempty"` // what the account can do, or cannot
		Backlog   int64     `json:"backlog"`        // messages that wait to be sent
	}
)

// AccountLeft is the state of an account that is not in the settings any more, and for which messages wait.
const AccountLeft = "left"

// Name is KIND, or KIND:ACCOUNT.
func (c ChannelAccount) Name() string { return AccountName{c.Kind, c.Account}.String() }

// String is KIND, or KIND:ACCOUNT.
func (a AccountName) String() string {
	if a.Account == "" {
		return a.Kind
	}
	return a.Kind + ":" + a.Account
}

// Greet tells which Corebot runs on the home.
func (s *Service) Greet(ctx context.Context, _ struct{}) (Hello, error) { return s.running.Hello(ctx) }

// ReadHealth says how the running Corebot is doing.
func (s *Service) ReadHealth(ctx context.Context, _ struct{}) (Health, error) {
	return s.stores.Vitals.Health(ctx), nil
}

// ReloadSettings reads the settings again and applies what can be applied. Settings that cannot be read, or that are
// refused, change nothing.
func (s *Service) ReloadSettings(ctx context.Context, _ struct{}) (Reloaded, error) {
	return s.running.ReloadSettings(ctx)
}

// ReadContext says what the next request of a chat would carry.
func (s *Service) ReadContext(ctx context.Context, q ContextQuery) (Context, error) {
	return s.stores.Contexts.Context(ctx, q.Key)
}

// ListChannels lists every account of every channel, by name.
func (s *Service) ListChannels(ctx context.Context, p Part) (Page[ChannelAccount], error) {
	all, err := s.running.Channels(ctx)
	if err != nil {
		return Page[ChannelAccount]{}, err
	}
	return partOf(all, p, ChannelAccount.Name)
}

// RestartChannel ends the connection of an account and has it begun anew. It does not wait for that.
func (s *Service) RestartChannel(ctx context.Context, a AccountName) (Done, error) {
	if err := s.running.RestartChannel(ctx, a); err != nil {
		return Done{}, err
	}
	return Done{Changed: 1}, nil
}
