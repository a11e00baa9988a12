// Package config reads Corebot's settings: defaults, then a file in the home directory, then the environment.
//
// It is strict: a key that is not known is an error that names the key and the nearest known one, in the file and in the
// environment. Nothing outside cmd and internal/app imports this package; every other package has options of its own.
package config

import (
	"time"
)

// Config is every setting. The zero value is not usable: start from [Load].
type Config struct {
	Home string `mapstructure:"-"`

	LLM           LLM           `mapstructure:"llm"`
	Agent         Agent         `mapstructure:"agent"`
	Bus           Bus           `mapstructure:"bus"`
	Router        Router        `mapstructure:"router"`
	Tools         Tools         `mapstructure:"tools"`
	Channels      Channels      `mapstructure:"channels"`
	Observability Observability `mapstructure:"observability"`
	Log           Log           `mapstructure:"log"`
}

// LLM says which model answers. With neither key nor base URL Corebot looks for a local server, then uses the offline model.
type LLM struct {
	BaseURL          string        `mapstructure:"base_url"`
	APIKey           string        `mapstructure:"api_key"`
	Model            string        `mapstructure:"model"`
	Offline          bool          `mapstructure:"offline"`  // use the offline model whatever else is set
	Discover         bool          `mapstructure:"discover"` // look for a local server
	Timeout          time.Duration `mapstructure:"timeout"`
	FirstByteTimeout time.Duration `mapstructure:"first_byte_timeout"`
	IdleTimeout      time.Duration `mapstructure:"idle_timeout"`
	ContextTokens    int           `mapstructure:"context_tokens"`
	OutputTokens     int           `mapstructure:"output_tokens"`
}

// Agent bounds a turn.
type Agent struct {
	MaxToolIterations int           `mapstructure:"max_tool_iterations"`
	MaxTime           time.Duration `mapstructure:"max_time"`
}

// Bus are the numbers of the queue.
type Bus struct {
	Lease           time.Duration `mapstructure:"lease"`
	MaxAttempts     int           `mapstructure:"max_attempts"`
	BackoffBase     time.Duration `mapstructure:"backoff_base"`
	BackoffMax      time.Duration `mapstructure:"backoff_max"`
	Drain           time.Duration `mapstructure:"drain"`
	MaxMessageBytes int           `mapstructure:"max_message_bytes"`
	LaneDepth       int64         `mapstructure:"lane_depth"`
	TotalDepth      int64         `mapstructure:"total_depth"`
	TotalBytes      int64         `mapstructure:"total_bytes"`
}

// Router says how much runs at once.
type Router struct {
	Workers int `mapstructure:"workers"`
}

// Tools bounds tool calls.
type Tools struct {
	Timeout        time.Duration `mapstructure:"timeout"`
	MaxOutputBytes int           `mapstructure:"max_output_bytes"`
}

// Channels says how replies are sent.
type Channels struct {
	OnAmbiguous string `mapstructure:"on_ambiguous"`
}

// Observability is the listener for /health, /ready, /metrics and /status.
type Observability struct {
	Enabled bool   `mapstructure:"enabled"`
	Addr    string `mapstructure:"addr"`
	Token   string `mapstructure:"token"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `mapstructure:"level"`  // debug, info, warn, error
	Format string `mapstructure:"format"` // auto, json, pretty
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
			Lease: 30 * time.Second, MaxAttempts: 5, BackoffBase: time.Second, BackoffMax: 5 * time.Minute, Drain: 30 * time.Second,
			MaxMessageBytes: 1 << 20, LaneDepth: 1_000, TotalDepth: 2_000_000, TotalBytes: 4 << 30,
		},
		Router:        Router{Workers: 64},
		Tools:         Tools{Timeout: 30 * time.Second, MaxOutputBytes: 50_000},
		Channels:      Channels{OnAmbiguous: "resend"},
		Observability: Observability{Enabled: true, Addr: "127.0.0.1:3210"},
		Log:           Log{Level: "info", Format: "auto"},
	}
}
