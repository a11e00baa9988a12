// Package config reads Corebot's settings: defaults, then a file in the home directory, then the environment.
//
// It is strict: an unknown key is an error that names the key and the nearest known key, in the file and in the
// environment. Only cmd and internal/app import this package; every other package has options of its own.
//
// The fields of [Config], their tags, and a text in settings.txt describe a setting. The loader, its checks, the JSON
// Schema, docs/configuration.md and the output of `corebot config print` are all made from them. The tags are:
//
//   - mapstructure: the name of the section or the setting
//   - min: the least value
//   - oneof: all values, or all that a list may have, separated by commas
//   - also: another environment variable that sets it; ours comes first
//   - reload: "yes" if a running Corebot takes a new value; it needs a restart for all others
//
// A section may be part of another: [Web] is tools.web. A setting may be a [List] of texts or numbers, or a list of
// entries, such as [Providers] or [Grants]. The fields of [Provider] and [Grant] describe such an entry in the same
// way.
//
// A secret has the type [Secret]. It may be a reference to a file or a variable, which is resolved when the settings
// are read. No error, no print and no encoding spells it.
package config

import "time"

//go:generate go test -run ^TestTheReferencePageIsCurrent$ . -update

// Config is every setting. The zero value is not usable: start from [Load]. Two of them can be compared with ==.
type Config struct {
	Home     string   `mapstructure:"-"`
	Accounts Accounts `mapstructure:"-"` // of channels.KIND.ACCOUNT, for the kinds of networks that [Load] was given
	// ConsoleAsked says that the file or the environment has a key of the console: its defaults alone are no wish.
	ConsoleAsked bool `mapstructure:"-"`

	LLM           LLM                 `mapstructure:"llm"`
	Agent         Agent               `mapstructure:"agent"`
	Memory        Memory              `mapstructure:"memory"`
	Agents        Entries[AgentEntry] `mapstructure:"agents"`
	Routes        Entries[Route]      `mapstructure:"routes"`
	Bus           Bus                 `mapstructure:"bus"`
	Storage       Storage             `mapstructure:"storage"`
	Files         Files               `mapstructure:"files"`
	Backup        Backup              `mapstructure:"backup"`
	Audit         Audit               `mapstructure:"audit"`
	Retention     Retention           `mapstructure:"retention"`
	Chats         Chats               `mapstructure:"chats"`
	Usage         Usage               `mapstructure:"usage"`
	Budget        Budget              `mapstructure:"budget"`
	Router        Router              `mapstructure:"router"`
	Tasks         Tasks               `mapstructure:"tasks"`
	Waits         Waits               `mapstructure:"waits"`
	Jobs          Jobs                `mapstructure:"jobs"`
	Tools         Tools               `mapstructure:"tools"`
	Approvals     Approvals           `mapstructure:"approvals"`
	Isolation     Isolation           `mapstructure:"isolation"`
	MCP           MCP                 `mapstructure:"mcp"`
	Channels      Channels            `mapstructure:"channels"`
	Admin         Admin               `mapstructure:"admin"`
	Webhook       Webhook             `mapstructure:"webhook"`
	Observability Observability       `mapstructure:"observability"`
	Console       Console             `mapstructure:"console"`
	Tracing       Tracing             `mapstructure:"tracing"`
	SLO           SLO                 `mapstructure:"slo"`
	Log           Log                 `mapstructure:"log"`
}

// LLM says which model answers. With neither key nor base URL Corebot looks for a local server, then uses the offline
// model.
type LLM struct {
	BaseURL          string        `mapstructure:"base_url" reload:"yes" also:"OPENAI_BASE_URL"`
	APIKey           Secret        `mapstructure:"api_key" reload:"yes" also:"OPENAI_API_KEY"`
	Model            string        `mapstructure:"model" reload:"yes" also:"OPENAI_MODEL"`
	Offline          bool          `mapstructure:"offline" reload:"yes"`
	Discover         bool          `mapstructure:"discover" reload:"yes"`
	Timeout          time.Duration `mapstructure:"timeout" reload:"yes" min:"1ns"`
	FirstByteTimeout time.Duration `mapstructure:"first_byte_timeout" reload:"yes" min:"1ns"`
	IdleTimeout      time.Duration `mapstructure:"idle_timeout" reload:"yes" min:"1ns"`
	Vision           bool          `mapstructure:"vision" reload:"yes"`
	Transcription    Transcription `mapstructure:"transcription"`
	Embeddings       Embeddings    `mapstructure:"embeddings"`
	Providers        Providers     `mapstructure:"providers" reload:"yes"`
	Prices           string        `mapstructure:"prices" reload:"yes"`
	BreakerFailures  int           `mapstructure:"breaker_failures" reload:"yes" min:"1"`
	BreakerCoolDown  time.Duration `mapstructure:"breaker_cool_down" reload:"yes" min:"1s"`
	ContextTokens    int           `mapstructure:"context_tokens" reload:"yes" min:"0"`
	OutputTokens     int           `mapstructure:"output_tokens" reload:"yes" min:"1"`
}

// Transcription is the service that writes down what people say in recordings.
type Transcription struct {
	BaseURL  string        `mapstructure:"base_url"`
	APIKey   Secret        `mapstructure:"api_key"`
	Model    string        `mapstructure:"model"`
	Timeout  time.Duration `mapstructure:"timeout" min:"1s"`
	MaxBytes int64         `mapstructure:"max_bytes" min:"1"`
}

// Embeddings is the service that turns texts into vectors, by which searches find a like meaning.
type Embeddings struct {
	BaseURL string        `mapstructure:"base_url"`
	APIKey  Secret        `mapstructure:"api_key"`
	Model   string        `mapstructure:"model"`
	Timeout time.Duration `mapstructure:"timeout" min:"1s"`
	Batch   int           `mapstructure:"batch" min:"1"`
}

// Agent bounds a turn.
type Agent struct {
	MaxToolIterations int           `mapstructure:"max_tool_iterations" min:"1"`
	MaxTime           time.Duration `mapstructure:"max_time" min:"1ns"`
	SessionIdle       time.Duration `mapstructure:"session_idle" min:"0s"`
	Compaction        bool          `mapstructure:"compaction"`
	CompactionReserve int           `mapstructure:"compaction_reserve_tokens" min:"0"`
	CompactionKeep    int           `mapstructure:"compaction_keep_tokens" min:"0"`
	CompactionTimeout time.Duration `mapstructure:"compaction_timeout" min:"1ns"`
}

// Memory says what agents remember by themselves.
type Memory struct {
	Facts bool `mapstructure:"facts"`
}

// Bus are the numbers of the queue.
type Bus struct {
	Lease           time.Duration `mapstructure:"lease" min:"1s"`
	MaxAttempts     int           `mapstructure:"max_attempts" min:"1"`
	BackoffBase     time.Duration `mapstructure:"backoff_base" min:"1ns"`
	BackoffMax      time.Duration `mapstructure:"backoff_max"`
	LimitPatience   time.Duration `mapstructure:"limit_patience" min:"0s"`
	Drain           time.Duration `mapstructure:"drain" min:"0s"`
	MaxMessageBytes int           `mapstructure:"max_message_bytes" min:"1"`
	LaneDepth       int64         `mapstructure:"lane_depth" min:"1"`
	RateEvery       time.Duration `mapstructure:"rate_every" min:"0s"`
	RateBurst       int           `mapstructure:"rate_burst" min:"1"`
	QueueMode       string        `mapstructure:"queue_mode" oneof:"queue,steer,interrupt,collect"`
	CollectDebounce time.Duration `mapstructure:"collect_debounce" min:"0s"`
	ControlEvery    time.Duration `mapstructure:"control_every" min:"0s"`
	ControlBurst    int           `mapstructure:"control_burst" min:"1"`
	SenderEvery     time.Duration `mapstructure:"sender_every" min:"0s"`
	SenderBurst     int           `mapstructure:"sender_burst" min:"1"`
	SenderDepth     int64         `mapstructure:"sender_depth" min:"0"`
	SenderBytes     int64         `mapstructure:"sender_bytes" min:"0"`
	TotalDepth      int64         `mapstructure:"total_depth" min:"1"`
	TotalBytes      int64         `mapstructure:"total_bytes" min:"1"`
	DedupeTTL       time.Duration `mapstructure:"dedupe_ttl" min:"0s"`
}

// Storage is the database and its disk.
type Storage struct {
	DiskFloor int64 `mapstructure:"disk_floor" min:"-1"`
}

// Files bounds the files that messages bring.
type Files struct {
	MaxBytes   int64 `mapstructure:"max_bytes" min:"1"`
	ChatBytes  int64 `mapstructure:"chat_bytes" min:"0"`
	TotalBytes int64 `mapstructure:"total_bytes" min:"0"`
}

// Backup says when backups are made, where, and how many are kept.
type Backup struct {
	Every time.Duration `mapstructure:"every" min:"0s"`
	Dir   string        `mapstructure:"dir"`
	Keep  int           `mapstructure:"keep" min:"1"`
}

// Audit says how the heads of the audit trail are published, and how often the trail is verified.
type Audit struct {
	PublishEvery time.Duration `mapstructure:"publish_every" reload:"yes" min:"0s"`
	VerifyEvery  time.Duration `mapstructure:"verify_every" reload:"yes" min:"0s"`
	File         string        `mapstructure:"file" reload:"yes"`
	URL          string        `mapstructure:"url" reload:"yes"`
	Token        Secret        `mapstructure:"token" reload:"yes"`
}

// Retention is how long what is over is kept.
type Retention struct {
	Messages       time.Duration `mapstructure:"messages" reload:"yes" min:"0s"`
	Usage          time.Duration `mapstructure:"usage" reload:"yes" min:"0s"`
	Audit          time.Duration `mapstructure:"audit" reload:"yes" min:"0s"`
	History        time.Duration `mapstructure:"history" reload:"yes" min:"0s"`
	HistoryEntries int           `mapstructure:"history_entries" reload:"yes" min:"0"`
	Versions       time.Duration `mapstructure:"versions" reload:"yes" min:"0s"`
}

// Router says how much runs at once.
type Router struct {
	Workers int  `mapstructure:"workers" min:"1"`
	Fair    bool `mapstructure:"fair"`
}

// Tasks bounds scheduled tasks.
type Tasks struct {
	PerChat     int           `mapstructure:"per_chat" min:"1"`
	PerSender   int           `mapstructure:"per_sender" min:"1"`
	Total       int           `mapstructure:"total" min:"1"`
	TimeZone    string        `mapstructure:"time_zone"`
	MaxLate     time.Duration `mapstructure:"max_late" min:"0s"`
	MaxFailures int           `mapstructure:"max_failures" min:"0"`
}

// Waits bounds calls that wait for a time or a word.
type Waits struct {
	MaxTime   time.Duration `mapstructure:"max_time" min:"1s"`
	PerSender int           `mapstructure:"per_sender" min:"1"`
	Total     int           `mapstructure:"total" min:"1"`
}

// Jobs bounds the work that turns give to other turns.
type Jobs struct {
	Tokens    int64 `mapstructure:"tokens" min:"1"`
	Calls     int   `mapstructure:"calls" min:"1"`
	PerSender int   `mapstructure:"per_sender" min:"1"`
	Total     int   `mapstructure:"total" min:"1"`
}

// Tools bounds tool calls.
type Tools struct {
	Timeout        time.Duration `mapstructure:"timeout" min:"1ns"`
	MaxOutputBytes int           `mapstructure:"max_output_bytes" min:"1"`
	ChatFilesBytes int64         `mapstructure:"chat_files_bytes" min:"0"`
	ChatFiles      int           `mapstructure:"chat_files" min:"0"`

	SenderFilesBytes int64             `mapstructure:"sender_files_bytes" min:"0"`
	Versions         int               `mapstructure:"versions" min:"0"`
	VersionsBytes    int64             `mapstructure:"versions_bytes" min:"0"`
	SenderFiles      int               `mapstructure:"sender_files" min:"0"`
	Grants           Grants            `mapstructure:"grants"`
	AllowedEnv       List[string]      `mapstructure:"allowed_env"`
	Roots            Entries[OpenRoot] `mapstructure:"roots"`
	Shell            Shell             `mapstructure:"shell"`
	Web              Web               `mapstructure:"web"`
}

// Channels says how replies are sent, on every channel, and who may talk on each.
type Channels struct {
	OnAmbiguous string        `mapstructure:"on_ambiguous" oneof:"resend,hold"`
	MaxAge      time.Duration `mapstructure:"max_age" min:"0s"`

	CLI     Access `mapstructure:"cli"`
	Webhook Access `mapstructure:"webhook"`
	MCP     Access `mapstructure:"mcp"`
	API     Access `mapstructure:"api"`
}

// Admin says how the first admin is made, and how whoever looks after Corebot is reached.
type Admin struct {
	BootstrapKey         Secret        `mapstructure:"bootstrap_key"`
	BootstrapMaxAttempts int           `mapstructure:"bootstrap_max_attempts" min:"1"`
	BootstrapLockout     time.Duration `mapstructure:"bootstrap_lockout" min:"1ns"`

	Chat string `mapstructure:"chat"`
}

// Webhook is the channel for programs that talk over HTTP.
type Webhook struct {
	Enabled        bool          `mapstructure:"enabled"`
	Addr           string        `mapstructure:"addr"`
	Token          Secret        `mapstructure:"token" reload:"yes"`
	Secret         Secret        `mapstructure:"secret" reload:"yes"`
	MaxBodyBytes   int           `mapstructure:"max_body_bytes" min:"1"`
	CallbackURL    string        `mapstructure:"callback_url"`
	CallbackSecret Secret        `mapstructure:"callback_secret"`
	Retention      time.Duration `mapstructure:"retention" min:"1ns"`
	AllowedHosts   List[string]  `mapstructure:"allowed_hosts"`
	MaxConnections int           `mapstructure:"max_connections" min:"1"`
	Interactive    bool          `mapstructure:"interactive"`
	MaxStreams     int           `mapstructure:"max_streams" min:"1"`
}

// Observability is the listener for /health, /ready, /metrics and /status.
type Observability struct {
	Enabled      bool         `mapstructure:"enabled"`
	Addr         string       `mapstructure:"addr"`
	AllowedHosts List[string] `mapstructure:"allowed_hosts"`
	Token        Secret       `mapstructure:"token" reload:"yes"`

	StuckAfter time.Duration `mapstructure:"stuck_after" min:"1s"`
}

// Console is the listener for the pages and the HTTP API.
type Console struct {
	Enabled      bool         `mapstructure:"enabled"`
	Addr         string       `mapstructure:"addr"`
	AllowedHosts List[string] `mapstructure:"allowed_hosts"`
}

// Tracing says whether spans are recorded. The standard variables of OpenTelemetry say where they go.
type Tracing struct {
	Enabled   bool         `mapstructure:"enabled"`
	Propagate List[string] `mapstructure:"propagate" oneof:"models,mcp"`
}

// SLO are the service level objectives, and who is told when one is missed.
type SLO struct {
	Accepted        Number        `mapstructure:"accepted"`
	AcceptedWithin  time.Duration `mapstructure:"accepted_within" min:"1ms"`
	Answered        Number        `mapstructure:"answered"`
	AnsweredWithin  time.Duration `mapstructure:"answered_within" min:"1s"`
	Delivered       Number        `mapstructure:"delivered"`
	DeliveredWithin time.Duration `mapstructure:"delivered_within" min:"1s"`
	Tasks           Number        `mapstructure:"tasks"`
	TasksWithin     time.Duration `mapstructure:"tasks_within" min:"1s"`
	MinBad          int           `mapstructure:"min_bad" min:"1"`
	CoolDown        time.Duration `mapstructure:"cool_down" min:"0"`
	WebhookURL      string        `mapstructure:"webhook_url"`
	WebhookSecret   Secret        `mapstructure:"webhook_secret"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `mapstructure:"level" reload:"yes" oneof:"debug,info,warn,error"`
	Format string `mapstructure:"format" oneof:"auto,json,pretty"`
}

// Defaults are the settings of an empty home.
func Defaults() Config {
	return Config{
		LLM: LLM{
			Discover: true, Timeout: 10 * time.Minute, FirstByteTimeout: time.Minute, IdleTimeout: time.Minute,
			BreakerFailures: 3, BreakerCoolDown: 15 * time.Second,
			OutputTokens:  4_096,
			Transcription: Transcription{Model: "whisper-1", Timeout: time.Minute, MaxBytes: 25 << 20},
			Embeddings:    Embeddings{Timeout: time.Minute, Batch: 64},
		},
		Agent: Agent{
			MaxToolIterations: 24, MaxTime: 10 * time.Minute, Compaction: true,
			CompactionTimeout: time.Minute,
		},
		Bus: Bus{
			Lease: 30 * time.Second, MaxAttempts: 8, BackoffBase: 2 * time.Second, BackoffMax: 5 * time.Minute,
			LimitPatience: time.Hour, Drain: 30 * time.Second,
			MaxMessageBytes: 1 << 20, LaneDepth: 1_000, RateBurst: 10,
			QueueMode: "queue", CollectDebounce: 2 * time.Second, ControlEvery: 30 * time.Second, ControlBurst: 30,
			SenderEvery: 100 * time.Millisecond, SenderBurst: 10_000, SenderDepth: 10_000, SenderBytes: 256 << 20,
			TotalDepth: 2_000_000, TotalBytes: 4 << 30, DedupeTTL: 7 * 24 * time.Hour,
		},
		Files:  Files{MaxBytes: 50 << 20, ChatBytes: 512 << 20, TotalBytes: 8 << 30},
		Backup: Backup{Dir: "data/backups", Keep: 7},
		Audit:  Audit{PublishEvery: time.Hour, VerifyEvery: 24 * time.Hour, File: "data/audit-heads.jsonl"},
		Retention: Retention{
			Messages: 30 * 24 * time.Hour, Audit: 90 * 24 * time.Hour, Usage: 400 * 24 * time.Hour,
			Versions: 7 * 24 * time.Hour,
		},
		Chats:  Chats{Store: "full"},
		Usage:  Usage{Currency: "USD", TimeZone: "UTC"},
		Router: Router{Workers: 64, Fair: true},
		Tasks:  Tasks{PerChat: 100, PerSender: 500, Total: 100_000, MaxLate: 7 * 24 * time.Hour, MaxFailures: 5},
		Waits:  Waits{MaxTime: 24 * time.Hour, PerSender: 20, Total: 1000},
		Jobs:   Jobs{Tokens: 400_000, Calls: 96, PerSender: 64, Total: 1000},
		Tools: Tools{
			Timeout: 30 * time.Second, MaxOutputBytes: 50_000, ChatFilesBytes: 256 << 20,
			ChatFiles: 10_000, SenderFilesBytes: 64 << 20, SenderFiles: 5_000, Versions: 200,
			VersionsBytes: 256 << 20, Shell: defaultShell(), Web: defaultWeb(),
		},
		Approvals: defaultApprovals(),
		Isolation: defaultIsolation(),
		MCP:       defaultMCP(),
		Channels: Channels{
			OnAmbiguous: "resend", MaxAge: 24 * time.Hour, CLI: Access{Rule: "open"}, Webhook: Access{Rule: "open"},
			MCP: Access{Rule: "open"}, API: Access{Rule: "open"},
		},
		Admin: Admin{BootstrapMaxAttempts: 5, BootstrapLockout: 15 * time.Minute},
		Webhook: Webhook{
			Addr: "127.0.0.1:8788", MaxBodyBytes: 1 << 20, Retention: 7 * 24 * time.Hour, MaxConnections: 1_024,
			MaxStreams: 256, Interactive: true,
		},
		Console:       Console{Enabled: true, Addr: "127.0.0.1:3211"},
		Observability: Observability{Enabled: true, Addr: "127.0.0.1:3210", StuckAfter: 30 * time.Second},
		SLO: SLO{
			Accepted: "0.999", AcceptedWithin: time.Second, Answered: "0.95", AnsweredWithin: 5 * time.Minute,
			Delivered: "0.99", DeliveredWithin: 5 * time.Minute, Tasks: "0.99", TasksWithin: time.Minute,
			MinBad: 3, CoolDown: time.Hour,
		},
		Log: Log{Level: "info", Format: "auto"},
	}
}
