// Package config reads Corebot's settings: defaults, then a file in the home directory, then the environment.
//
// It is strict: an unknown key is an error that names the key and the nearest known key, in the file and in the
// environment. Only cmd and internal/app import this package; every other package has options of its own.
//
// The fields of [Config] and their tags are the one place that describes a setting. The loader, its checks, the JSON
// Schema, docs/configuration.md and the output of `corebot config print` are all made from them:
//
//   - mapstructure: the name of the section or the setting
//   - doc: what it is for, in one line
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

	LLM           LLM                 `mapstructure:"llm" doc:"Which model answers. With neither key nor address Corebot looks for a server on this machine, then uses the offline model."`
	Agent         Agent               `mapstructure:"agent" doc:"Bounds of one turn."`
	Agents        Entries[AgentEntry] `mapstructure:"agents" doc:"Several agents in one process, each with a workspace, models, tools and a budget of its own. Without any there is one, main, with the settings of the other sections."`
	Routes        Entries[Route]      `mapstructure:"routes" doc:"Which agent answers where: the first entry that matches a chat. Without a match it is main, or the first of agents where none is called main."`
	Bus           Bus                 `mapstructure:"bus" doc:"The numbers of the queue."`
	Storage       Storage             `mapstructure:"storage" doc:"The database and its disk."`
	Retention     Retention           `mapstructure:"retention" doc:"How long what is over is kept; 0s means for ever. Dead letters and what waits are kept whatever their age; replies for callers of the webhook have webhook.retention."`
	Usage         Usage               `mapstructure:"usage" doc:"How what models use is booked. Prices are llm.prices."`
	Budget        Budget              `mapstructure:"budget" doc:"What may be used in a day. A message over a cap leaves its chat's queue and comes back when the day turns; a turn that has begun goes on to its end, so that a cap is passed by as much as the turns under way use."`
	Router        Router              `mapstructure:"router" doc:"How much runs at once."`
	Tasks         Tasks               `mapstructure:"tasks" doc:"Prompts that are due at set times: reminders and schedules (docs/tasks.md)."`
	Tools         Tools               `mapstructure:"tools" doc:"Bounds of one tool call."`
	Approvals     Approvals           `mapstructure:"approvals" doc:"Calls of tools that run only after an admin has said so, with /approve or corebot approvals."`
	Isolation     Isolation           `mapstructure:"isolation" doc:"The worker processes in which programs run, and tools if they are told to."`
	MCP           MCP                 `mapstructure:"mcp" doc:"Bounds of the MCP servers, which .mcp.json in the home lists (docs/mcp.md)."`
	Channels      Channels            `mapstructure:"channels" doc:"How replies are sent, and who may talk."`
	Admin         Admin               `mapstructure:"admin" doc:"Whoever looks after Corebot."`
	Webhook       Webhook             `mapstructure:"webhook" doc:"The channel for programs that talk over HTTP. Enabled, it needs a token or a secret."`
	Observability Observability       `mapstructure:"observability" doc:"The listener for /health, /ready, /metrics and /status."`
	Log           Log                 `mapstructure:"log" doc:"What is logged, and how."`
}

// LLM says which model answers. With neither key nor base URL Corebot looks for a local server, then uses the offline
// model.
type LLM struct {
	BaseURL          string        `mapstructure:"base_url" also:"OPENAI_BASE_URL" doc:"an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1"`
	APIKey           Secret        `mapstructure:"api_key" also:"OPENAI_API_KEY" doc:"the key for it"`
	Model            string        `mapstructure:"model" also:"OPENAI_MODEL" doc:"the name of the model; at an endpoint gpt-4o-mini if it is empty"`
	Offline          bool          `mapstructure:"offline" doc:"use the offline model whatever else is set"`
	Discover         bool          `mapstructure:"discover" doc:"look for a model server on this machine when no endpoint is set"`
	Timeout          time.Duration `mapstructure:"timeout" min:"1ns" doc:"of one model call"`
	FirstByteTimeout time.Duration `mapstructure:"first_byte_timeout" min:"1ns" doc:"until an answer begins"`
	IdleTimeout      time.Duration `mapstructure:"idle_timeout" min:"1ns" doc:"between two pieces of an answer"`
	Providers        Providers     `mapstructure:"providers" doc:"several providers, tried in order, in the place of base_url, api_key and model"`
	Prices           string        `mapstructure:"prices" doc:"what a million tokens cost, as MODEL=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE, separated by commas; a model is a name or its beginning and *; cached input without a price of its own costs what input does; none are built in"`
	BreakerFailures  int           `mapstructure:"breaker_failures" min:"1" doc:"failures in a row until one of several models is left alone for a while"`
	BreakerCoolDown  time.Duration `mapstructure:"breaker_cool_down" min:"1s" doc:"for how long at first; it doubles each time, up to 5m or itself"`
	ContextTokens    int           `mapstructure:"context_tokens" min:"0" doc:"of the whole prompt and its answer, more than output_tokens; 0 is what is known of the models, at most 64000, and 32000 if nothing is"`
	OutputTokens     int           `mapstructure:"output_tokens" min:"1" doc:"reserved for the answer"`
}

// Agent bounds a turn.
type Agent struct {
	MaxToolIterations int           `mapstructure:"max_tool_iterations" min:"1" doc:"rounds of tool calls; then the model gets a last call without tools"`
	MaxTime           time.Duration `mapstructure:"max_time" min:"1ns" doc:"of a turn; then the model gets a last call without tools"`
	SessionIdle       time.Duration `mapstructure:"session_idle" min:"0s" doc:"a message after a longer pause begins a new conversation, as after /new; 0s is never"`
	Compaction        bool          `mapstructure:"compaction" doc:"summarise the older part of a long conversation; without it what has no room is left out"`
	CompactionReserve int           `mapstructure:"compaction_reserve_tokens" min:"0" doc:"tokens that the conversation leaves free for what a turn brings, such as results of tools; it is summarised before it takes them; 0 is a quarter of the prompt"`
	CompactionKeep    int           `mapstructure:"compaction_keep_tokens" min:"0" doc:"tokens of the newest messages that stay word for word when the others are summarised; 0 is a quarter of the prompt"`
	CompactionTimeout time.Duration `mapstructure:"compaction_timeout" min:"1ns" doc:"of the model's summary; then an extract is made without it"`
}

// Bus are the numbers of the queue.
type Bus struct {
	Lease           time.Duration `mapstructure:"lease" min:"1s" doc:"how long a claim holds without being extended; it is extended while a turn runs"`
	MaxAttempts     int           `mapstructure:"max_attempts" min:"1" doc:"then a message is a dead letter"`
	BackoffBase     time.Duration `mapstructure:"backoff_base" min:"1ns" doc:"the first wait between two attempts; it doubles each time, with full jitter"`
	BackoffMax      time.Duration `mapstructure:"backoff_max" doc:"the longest wait between two attempts; at least backoff_base"`
	LimitPatience   time.Duration `mapstructure:"limit_patience" min:"0s" doc:"how long, from the first one that a message meets, rate limits of a provider use up none of its attempts; 0s: they always do"`
	Drain           time.Duration `mapstructure:"drain" min:"0s" doc:"how long turns may go on after SIGTERM"`
	MaxMessageBytes int           `mapstructure:"max_message_bytes" min:"1" doc:"of one message"`
	LaneDepth       int64         `mapstructure:"lane_depth" min:"1" doc:"messages that may wait in one chat; one more is refused"`
	RateEvery       time.Duration `mapstructure:"rate_every" min:"0s" doc:"one message of a chat is begun in this time on average; faster ones wait and are never refused; 0 is no limit"`
	RateBurst       int           `mapstructure:"rate_burst" min:"1" doc:"with rate_every: how many messages of a chat are begun at once after a pause"`
	QueueMode       string        `mapstructure:"queue_mode" oneof:"queue,steer,interrupt,collect" doc:"what becomes of a prompt that finds its chat busy, where the chat has no mode of its own: it waits its turn, is merged into the turn that runs, stops it if it is of the same sender, or is answered together with the others of its sender that wait"`
	CollectDebounce time.Duration `mapstructure:"collect_debounce" min:"0s" doc:"with the mode collect: how long a sender must be silent before his messages are answered; ten times as long at most"`
	ControlEvery    time.Duration `mapstructure:"control_every" min:"0s" doc:"one command of a sender in a chat that acts at once, and finds nothing to do, is accepted in this time on average; faster ones are refused; 0 is no limit"`
	ControlBurst    int           `mapstructure:"control_burst" min:"1" doc:"with control_every: how many such commands of a sender in a chat are accepted at once after a pause"`
	SenderEvery     time.Duration `mapstructure:"sender_every" min:"0s" doc:"with router.fair: one new message of a sender is begun in this time on average, in all chats together, but not at the terminal; faster ones wait and are never refused; a sender without an id is the chat; 0 is no limit"`
	SenderBurst     int           `mapstructure:"sender_burst" min:"1" doc:"with sender_every: how many messages of a sender are begun at once after a pause"`
	SenderDepth     int64         `mapstructure:"sender_depth" min:"0" doc:"messages of one sender that may wait, in all chats together; one more is refused, but not at the terminal; 0 is no limit"`
	SenderBytes     int64         `mapstructure:"sender_bytes" min:"0" doc:"bytes of one sender that may wait; 0 is no limit"`
	TotalDepth      int64         `mapstructure:"total_depth" min:"1" doc:"messages that may wait in all chats together"`
	TotalBytes      int64         `mapstructure:"total_bytes" min:"1" doc:"bytes that may wait in all chats together"`
	DedupeTTL       time.Duration `mapstructure:"dedupe_ttl" min:"0s" doc:"how long the id of an accepted message is known at least, so that a copy is told from a new one; at most retention.messages"`
}

// Storage is the database and its disk.
type Storage struct {
	DiskFloor int64 `mapstructure:"disk_floor" min:"-1" doc:"free bytes of the disk under which new messages are refused; 0 is 512 MiB or 5 % of the disk, the smaller, and -1 switches it off"`
}

// Retention is how long what is over is kept.
type Retention struct {
	Messages       time.Duration `mapstructure:"messages" min:"0s" doc:"messages that have ended, with their journals, and then their chats if nothing else keeps them; at least bus.dedupe_ttl"`
	Usage          time.Duration `mapstructure:"usage" min:"0s" doc:"what was used on each day; at least 720h, which /usage looks back"`
	Audit          time.Duration `mapstructure:"audit" min:"0s" doc:"the audit trail of tool calls"`
	History        time.Duration `mapstructure:"history" min:"0s" doc:"what was said in chats; while a chat is in use, the newest 500 entries of its session stay whatever their age"`
	HistoryEntries int           `mapstructure:"history_entries" min:"0" doc:"at most about that many entries of a chat, whatever their age; 0 is no limit; the newest 500 of its session stay"`
}

// Router says how much runs at once.
type Router struct {
	Workers int  `mapstructure:"workers" min:"1" doc:"turns at once"`
	Fair    bool `mapstructure:"fair" doc:"share them fairly between senders: each has as many at once as are left for the others, at least one, and those who wait take turns"`
}

// Tasks bounds scheduled tasks.
type Tasks struct {
	PerChat     int           `mapstructure:"per_chat" min:"1" doc:"tasks of one chat that are not done; one more is refused"`
	PerSender   int           `mapstructure:"per_sender" min:"1" doc:"tasks that one person has made, in all chats together"`
	Total       int           `mapstructure:"total" min:"1" doc:"tasks in all chats together"`
	TimeZone    string        `mapstructure:"time_zone" doc:"of a task that names none: a name such as Europe/Berlin; empty is the zone of this machine, or UTC where it has no name"`
	MaxLate     time.Duration `mapstructure:"max_late" min:"0s" doc:"how late a repeated task is caught up after Corebot did not run; a due time before that is noted as missed; 0s is no limit; a single time is always caught up"`
	MaxFailures int           `mapstructure:"max_failures" min:"0" doc:"failed runs in a row after which a task is paused and its chat is told; 0 is never"`
}

// Tools bounds tool calls.
type Tools struct {
	Timeout        time.Duration `mapstructure:"timeout" min:"1ns" doc:"of one tool call"`
	MaxOutputBytes int           `mapstructure:"max_output_bytes" min:"1" doc:"longer output goes to a file, and the model sees its head and tail"`
	ChatFilesBytes int64         `mapstructure:"chat_files_bytes" min:"0" doc:"bytes of all files in one chat's folder of the workspace: its memory, artifacts and files; a write over it is refused; 0 is no limit"`
	ChatFiles      int           `mapstructure:"chat_files" min:"0" doc:"files and directories in one chat's folder of the workspace; a write over it is refused; 0 is no limit"`

	SenderFilesBytes int64        `mapstructure:"sender_files_bytes" min:"0" doc:"bytes that the turns of one sender may add to the folders of all chats together; a write over it is refused; admins and the terminal have no such limit; 0 is no limit"`
	SenderFiles      int          `mapstructure:"sender_files" min:"0" doc:"files and directories that the turns of one sender may add to the folders of all chats together; a write over it is refused; 0 is no limit"`
	Grants           Grants       `mapstructure:"grants" doc:"tools that are an admin's, opened to others; which those are, docs/policy.md says, and any other is refused; in a variable as TOOL=WHO, separated by commas"`
	AllowedEnv       List[string] `mapstructure:"allowed_env" doc:"variables of Corebot's environment that programs see, by name, beside PATH, HOME, TMPDIR and LANG, which are the same for all"`
	Shell            Shell        `mapstructure:"shell" doc:"Programs that shell.exec may run, each in a worker process behind walls (docs/isolation.md)."`
	Web              Web          `mapstructure:"web" doc:"What web.fetch may reach, and who answers web.search. Addresses that are not public are refused whatever name leads to them."`
}

// Channels says how replies are sent, on every channel, and who may talk on each.
type Channels struct {
	OnAmbiguous string        `mapstructure:"on_ambiguous" oneof:"resend,hold" doc:"what becomes of a reply whose sending was cut off, by a crash or for want of an answer, and that may have been shown"`
	MaxAge      time.Duration `mapstructure:"max_age" min:"0s" doc:"a message that was sent longer ago, such as while Corebot did not run, is kept as context and not answered, and its chat is told once; 0s: every message is answered"`

	CLI     Access `mapstructure:"cli" doc:"Who may talk at the terminal, beside being able to run Corebot's commands."`
	Webhook Access `mapstructure:"webhook" doc:"Who may talk through the webhook, beside having its token or secret."`
	MCP     Access `mapstructure:"mcp" doc:"Who may talk as an MCP client, which all are mcp.serve.principal: with an allowlist, in which chats."`
}

// Admin says how the first admin is made, and how whoever looks after Corebot is reached.
type Admin struct {
	BootstrapKey         Secret        `mapstructure:"bootstrap_key" doc:"a key that makes whoever sends it to the model for chat.register the first admin, once: at least 16 characters (openssl rand -hex 24); without one, corebot admin grant does"`
	BootstrapMaxAttempts int           `mapstructure:"bootstrap_max_attempts" min:"1" doc:"wrong bootstrap keys in a row, from all senders together; then none is taken for a while"`
	BootstrapLockout     time.Duration `mapstructure:"bootstrap_lockout" min:"1ns" doc:"for how long; neither attempts nor a restart change it"`

	Chat string `mapstructure:"chat" doc:"a chat that is told of replies that could not be delivered, and of calls that wait for an admin's approval: its key, as corebot chats list shows it; without one, log and metrics tell"`
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
	AllowedHosts   List[string]  `mapstructure:"allowed_hosts" doc:"names under which callers may know the listener, beside its address and localhost, such as that of a proxy in front of it; of a listener on loopback any other name in Host is refused, since it may be a web page's; pages of these names may ask; * is all"`
	MaxConnections int           `mapstructure:"max_connections" min:"1" doc:"at once; one more is answered 503"`
	Interactive    bool          `mapstructure:"interactive" doc:"the senders are people, and their admins may /approve; set it to false where callers are agents or automation; with mcp.serve.http it counts as false, since MCP clients have the same credential"`
	MaxStreams     int           `mapstructure:"max_streams" min:"1" doc:"long polls and event streams at once; one more is answered 503"`
}

// Observability is the listener for /health, /ready, /metrics and /status.
type Observability struct {
	Enabled      bool         `mapstructure:"enabled" doc:"open the listener"`
	Addr         string       `mapstructure:"addr" doc:"where to listen; port 0 picks one and logs it"`
	AllowedHosts List[string] `mapstructure:"allowed_hosts" doc:"names under which callers may know the listener, as webhook.allowed_hosts"`
	Token        Secret       `mapstructure:"token" reload:"yes" doc:"what callers send as a bearer token; needed when the listener can be reached from other machines"`
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
			BreakerFailures: 3, BreakerCoolDown: 15 * time.Second,
			OutputTokens: 4_096,
		},
		Agent: Agent{MaxToolIterations: 24, MaxTime: 10 * time.Minute, Compaction: true, CompactionTimeout: time.Minute},
		Bus: Bus{
			Lease: 30 * time.Second, MaxAttempts: 8, BackoffBase: 2 * time.Second, BackoffMax: 5 * time.Minute,
			LimitPatience: time.Hour, Drain: 30 * time.Second,
			MaxMessageBytes: 1 << 20, LaneDepth: 1_000, RateBurst: 10,
			QueueMode: "queue", CollectDebounce: 2 * time.Second, ControlEvery: 30 * time.Second, ControlBurst: 30,
			SenderEvery: 100 * time.Millisecond, SenderBurst: 10_000, SenderDepth: 10_000, SenderBytes: 256 << 20,
			TotalDepth: 2_000_000, TotalBytes: 4 << 30, DedupeTTL: 7 * 24 * time.Hour,
		},
		Retention: Retention{Messages: 30 * 24 * time.Hour, Audit: 90 * 24 * time.Hour, Usage: 400 * 24 * time.Hour},
		Usage:     Usage{Currency: "USD", TimeZone: "UTC"},
		Router:    Router{Workers: 64, Fair: true},
		Tasks:     Tasks{PerChat: 100, PerSender: 500, Total: 100_000, MaxLate: 7 * 24 * time.Hour, MaxFailures: 5},
		Tools: Tools{
			Timeout: 30 * time.Second, MaxOutputBytes: 50_000, ChatFilesBytes: 256 << 20,
			ChatFiles: 10_000, SenderFilesBytes: 64 << 20, SenderFiles: 5_000, Shell: defaultShell(),
			Web: defaultWeb(),
		},
		Approvals: defaultApprovals(),
		Isolation: defaultIsolation(),
		MCP:       defaultMCP(),
		Channels: Channels{
			OnAmbiguous: "resend", MaxAge: 24 * time.Hour, CLI: Access{Rule: "open"}, Webhook: Access{Rule: "open"},
			MCP: Access{Rule: "open"},
		},
		Admin: Admin{BootstrapMaxAttempts: 5, BootstrapLockout: 15 * time.Minute},
		Webhook: Webhook{
			Addr: "127.0.0.1:8788", MaxBodyBytes: 1 << 20, Retention: 7 * 24 * time.Hour, MaxConnections: 1_024,
			MaxStreams: 256, Interactive: true,
		},
		Observability: Observability{Enabled: true, Addr: "127.0.0.1:3210"},
		Log:           Log{Level: "info", Format: "auto"},
	}
}
