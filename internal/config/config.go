// Package config reads Corebot's settings: defaults, then a file in the home directory, then the environment.
//
// It is strict: a key that is not known is an error that names the key and the nearest known one, in the file and in the
// environment. Nothing outside cmd and internal/app imports this package; every other package has options of its own.
//
// The fields of [Config] and their tags are the one place where a setting is described; the loader, its checks, the JSON Schema,
// docs/configuration.md and what `corebot config print` shows are all made from them:
//
//   - mapstructure: the name of the section or the setting
//   - doc: what it is for, in one line
//   - min: the least value
//   - oneof: all values, separated by commas
//   - also: another environment variable that sets it; ours comes first
//   - reload: "yes" if a running Corebot takes a new value; it needs a restart for all others
//
// A secret has the type [Secret]: it may be a reference to a file or a variable, which is resolved when the settings are read, and no
// error, no print and no encoding spells it.
package config

import "time"

//go:generate go test -run ^TestTheReferencePageIsCurrent$ . -update

// Config is every setting. The zero value is not usable: start from [Load]. Two of them can be compared with ==.
type Config struct {
	Home string `mapstructure:"-"`

	LLM           LLM           `mapstructure:"llm" doc:"Which model answers. With neither key nor address Corebot looks for a server on this machine, then uses the offline model."`
	Agent         Agent         `mapstructure:"agent" doc:"Bounds of one turn."`
	Bus           Bus           `mapstructure:"bus" doc:"The numbers of the queue."`
	Router        Router        `mapstructure:"router" doc:"How much runs at once."`
	Tools         Tools         `mapstructure:"tools" doc:"Bounds of one tool call."`
	Channels      Channels      `mapstructure:"channels" doc:"How replies are sent, on every channel."`
	Webhook       Webhook       `mapstructure:"webhook" doc:"The channel for programs that talk over HTTP. Enabled, it needs a token or a secret."`
	Observability Observability `mapstructure:"observability" doc:"The listener for /health, /ready, /metrics and /status."`
	Log           Log           `mapstructure:"log" doc:"What is logged, and how."`
}

// LLM says which model answers. With neither key nor base URL Corebot looks for a local server, then uses the offline model.
type LLM struct {
	BaseURL          string        `mapstructure:"base_url" also:"OPENAI_BASE_URL" doc:"an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1"`
	APIKey           Secret        `mapstructure:"api_key" also:"OPENAI_API_KEY" doc:"the key for it"`
	Model            string        `mapstructure:"model" also:"OPENAI_MODEL" doc:"the name of the model; at an endpoint gpt-4o-mini if it is empty"`
	Offline          bool          `mapstructure:"offline" doc:"use the offline model whatever else is set"`
	Discover         bool          `mapstructure:"discover" doc:"look for a model server on this machine when no endpoint is set"`
	Timeout          time.Duration `mapstructure:"timeout" min:"1ns" doc:"of one model call"`
	FirstByteTimeout time.Duration `mapstructure:"first_byte_timeout" min:"1ns" doc:"until an answer begins"`
	IdleTimeout      time.Duration `mapstructure:"idle_timeout" min:"1ns" doc:"between two pieces of an answer"`
	ContextTokens    int           `mapstructure:"context_tokens" doc:"of the whole prompt and its answer; more than output_tokens"`
	OutputTokens     int           `mapstructure:"output_tokens" min:"1" doc:"reserved for the answer"`
}

// Agent bounds a turn.
type Agent struct {
	MaxToolIterations int           `mapstructure:"max_tool_iterations" min:"1" doc:"rounds of tool calls; then the model gets a last call without tools"`
	MaxTime           time.Duration `mapstructure:"max_time" min:"1ns" doc:"of a turn; then the model gets a last call without tools"`
}

// Bus are the numbers of the queue.
type Bus struct {
	Lease           time.Duration `mapstructure:"lease" min:"1s" doc:"how long a claim holds without being extended; it is extended while a turn runs"`
	MaxAttempts     int           `mapstructure:"max_attempts" min:"1" doc:"then a message is a dead letter"`
	BackoffBase     time.Duration `mapstructure:"backoff_base" min:"1ns" doc:"the first wait between two attempts; it doubles each time, with full jitter"`
	BackoffMax      time.Duration `mapstructure:"backoff_max" doc:"the longest wait between two attempts; at least backoff_base"`
	Drain           time.Duration `mapstructure:"drain" min:"0s" doc:"how long turns may go on after SIGTERM"`
	MaxMessageBytes int           `mapstructure:"max_message_bytes" min:"1" doc:"of one message"`
	LaneDepth       int64         `mapstructure:"lane_depth" min:"1" doc:"messages that may wait in one chat; one more is refused"`
	TotalDepth      int64         `mapstructure:"total_depth" min:"1" doc:"messages that may wait in all chats together"`
	TotalBytes      int64         `mapstructure:"total_bytes" min:"1" doc:"bytes that may wait in all chats together"`
}

// Router says how much runs at once.
type Router struct {
	Workers int `mapstructure:"workers" min:"1" doc:"turns at once"`
}

// Tools bounds tool calls.
type Tools struct {
	Timeout        time.Duration `mapstructure:"timeout" min:"1ns" doc:"of one tool call"`
	MaxOutputBytes int           `mapstructure:"max_output_bytes" min:"1" doc:"longer output goes to a file, and the model sees its head and tail"`
}

// Channels says how replies are sent.
type Channels struct {
	OnAmbiguous string `mapstructure:"on_ambiguous" oneof:"resend,hold" doc:"what becomes of a reply that may have been sent before a crash"`
}

// Webhook is the channel for programs that talk over HTTP.
type Webhook struct {
	Enabled        bool          `mapstructure:"enabled" doc:"open the listener"`
	Addr           string        `mapstructure:"addr" doc:"where to listen; port 0 picks one and logs it"`
	Token          Secret        `mapstructure:"token" reload:"yes" doc:"what callers send as a bearer token: at least 16 characters (openssl rand -hex 24)"`
	Secret         Secret        `mapstructure:"secret" reload:"yes" doc:"what callers sign with, by Standard Webhooks: whsec_ and base64 of at least 16 bytes (openssl rand -base64 24)"`
	MaxBodyBytes   int           `mapstructure:"max_body_bytes" min:"1" doc:"of one request; a larger one is answered 413"`
	CallbackURL    string        `mapstructure:"callback_url" doc:"an http or https address that replies are posted to as well; needs callback_secret"`
	CallbackSecret Secret        `mapstructure:"callback_secret" doc:"what those posts are signed with: whsec_ and base64 of at least 16 bytes"`
	Retention      time.Duration `mapstructure:"retention" min:"1ns" doc:"how long replies can be fetched"`
	MaxConnections int           `mapstructure:"max_connections" min:"1" doc:"at once; one more is answered 503"`
	MaxStreams     int           `mapstructure:"max_streams" min:"1" doc:"long polls and event streams at once; one more is answered 503"`
}

// Observability is the listener for /health, /ready, /metrics and /status.
type Observability struct {
	Enabled bool   `mapstructure:"enabled" doc:"open the listener"`
	Addr    string `mapstructure:"addr" doc:"where to listen; port 0 picks one and logs it"`
	Token   Secret `mapstructure:"token" reload:"yes" doc:"what callers send as a bearer token; needed when the listener can be reached from other machines"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `mapstructure:"level" reload:"yes" oneof:"debug,info,warn,error" doc:"the least level that is logged"`
	Format string `mapstructure:"format" oneof:"auto,json,pretty" doc:"auto is pretty on a terminal, else JSON"`
}

// Defaults are the settings of an empty home.
func Defaults() Config {
	return Config{
		LLM: LLM{
			Discover: true, Timeout: 10 * time.Minute, FirstByteTimeout: time.Minute, IdleTimeout: time.Minute,
			ContextTokens: 32_000, OutputTokens: 4_096,
		},
		Agent: Agent{MaxToolIterations: 8, MaxTime: 10 * time.Minute},
		Bus: Bus{
			Lease: 30 * time.Second, MaxAttempts: 8, BackoffBase: 2 * time.Second, BackoffMax: 5 * time.Minute, Drain: 30 * time.Second,
			MaxMessageBytes: 1 << 20, LaneDepth: 1_000, TotalDepth: 2_000_000, TotalBytes: 4 << 30,
		},
		Router:   Router{Workers: 64},
		Tools:    Tools{Timeout: 30 * time.Second, MaxOutputBytes: 50_000},
		Channels: Channels{OnAmbiguous: "resend"},
		Webhook: Webhook{
			Addr: "127.0.0.1:8788", MaxBodyBytes: 1 << 20, Retention: 7 * 24 * time.Hour, MaxConnections: 1_024, MaxStreams: 256,
		},
		Observability: Observability{Enabled: true, Addr: "127.0.0.1:3210"},
		Log:           Log{Level: "info", Format: "auto"},
	}
}
