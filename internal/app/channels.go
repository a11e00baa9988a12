package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools/builtin"
)

// kind is a kind of channel, as this process makes it from the settings. All that Corebot knows of a kind is here: the
// front door, the outbox, the supervisor and message.send serve what the list of kinds says.
type kind struct {
	channels.Account
	// what a turn of one of its messages has read from its start; empty: nothing
	taints  string
	access  func(config.Config) config.Access // who may talk
	network bool                              // it is in the settings, and has a platform to connect to
	groups  channels.GroupRule                // which messages of groups are prompts; empty: all
	reaches func(*App) *builtin.Destination   // how message.send finds its chats; nil: they cannot be written to now
	opens   func(config.Config, Options) bool // whether this run serves it
	open    func(context.Context, *App, prometheus.Registerer) (channels.Channel, error)
}

// Networks lists the kinds of channels whose accounts are in the settings, under channels.KIND.ACCOUNT. A new network
// is a folder, and a line here.
func Networks() []channels.Network { return nil }

// kinds lists the kinds of channels that have one account, which is always there.
func kinds() []kind { return []kind{terminals(), mcpClients(), webhooks()} }

// kinds lists all accounts of this run: those that are always there, and those of the settings.
func (a *App) kinds() []kind {
	all := kinds()
	for _, account := range a.config.Accounts.List() {
		for _, n := range a.networks {
			if n.Kind == account.Kind {
				all = append(all, accountOf(n, account))
			}
		}
	}
	return all
}

// accountOf is one account of a network.
func accountOf(n channels.Network, settings config.Account) kind {
	account := channels.Account{Kind: settings.Kind, Name: settings.Name}
	return kind{
		Account: account,
		access:  func(config.Config) config.Access { return settings.Common.Access() },
		network: true,
		groups:  channels.GroupRule(settings.Common.Groups),
		reaches: func(a *App) *builtin.Destination {
			agentOf := func(chat string) string { return a.routing().Key(account.Kind, account.Name, chat).Agent }
			return &builtin.Destination{Account: account.Name, AgentOf: agentOf}
		},
		opens: func(_ config.Config, o Options) bool { return o.Serve },
		open: func(_ context.Context, a *App, _ prometheus.Registerer) (channels.Channel, error) {
			log := a.log.With().Str("channel", account.Kind).Str("account", account.Name).Logger()
			return n.Open(settings.Decode, channels.Site{Account: account, Log: log})
		},
	}
}

// networkSettings are the networks as the settings know them.
func networkSettings(networks []channels.Network) (all []config.Network) {
	for _, n := range networks {
		all = append(all, config.Network{Kind: n.Kind, Standard: n.Standard})
	}
	return all
}

// LoadConfig reads the settings of a home, with the accounts of all networks, and of the others that are given.
func LoadConfig(home string, others ...channels.Network) (config.Config, error) {
	return config.Load(home, networkSettings(append(Networks(), others...))...)
}

// ExplainConfig is [LoadConfig] with where each value comes from.
func ExplainConfig(home string) (config.Explanation, error) {
	return config.Explain(home, networkSettings(Networks())...)
}

// ConfigSchema describes the settings file.
func ConfigSchema() any { return config.Schema(networkSettings(Networks())...) }

func attended(config.Config, Options) bool { return true }

func terminals() kind {
	return kind{
		Account: channels.Account{Kind: terminalChannel, Name: cli.DefaultAccount},
		access:  func(c config.Config) config.Access { return c.Channels.CLI },
		reaches: func(*App) *builtin.Destination { return &builtin.Destination{Account: cli.DefaultAccount} },
		opens:   attended,
		open: func(_ context.Context, a *App, _ prometheus.Registerer) (channels.Channel, error) {
			return a.openTerminals(), nil
		},
	}
}

func mcpClients() kind {
	return kind{
		Account: channels.Account{Kind: serve.Channel},
		taints:  "what an MCP client published",
		access:  func(c config.Config) config.Access { return c.Channels.MCP },
		reaches: func(*App) *builtin.Destination { return &builtin.Destination{} },
		opens:   attended,
		open: func(_ context.Context, a *App, r prometheus.Registerer) (channels.Channel, error) {
			return a.openClients(r)
		},
	}
}

func webhooks() kind {
	return kind{
		Account: channels.Account{Kind: webhook.Channel},
		access:  func(c config.Config) config.Access { return c.Channels.Webhook },
		reaches: func(a *App) *builtin.Destination {
			if !a.config.Webhook.Enabled {
				return nil
			}
			agentOf := func(chat string) string { return a.routing().Key(webhook.Channel, "", chat).Agent }
			return &builtin.Destination{AnyChat: true, AgentOf: agentOf} // any caller may ask for any chat's messages
		},
		opens: func(c config.Config, o Options) bool { return o.Serve && c.Webhook.Enabled },
		open: func(ctx context.Context, a *App, r prometheus.Registerer) (channels.Channel, error) {
			return a.openWebhook(ctx, r)
		},
	}
}

// untrusted names what taints turns, by the kinds whose messages do.
func untrusted() map[string]string {
	all := map[string]string{}
	for _, k := range kinds() {
		if k.taints != "" {
			all[k.Kind] = k.taints
		}
	}
	return all
}

// openChannels makes the channels of this run. A later kind can use what an earlier one has made.
func (a *App) openChannels(ctx context.Context, o Options, r prometheus.Registerer) (running []channels.Entry,
	err error,
) {
	for _, k := range a.kinds() {
		if !a.answers || !k.opens(a.config, o) {
			continue
		}
		c, err := k.open(ctx, a, r)
		if err != nil {
			return nil, err
		}
		running = append(running, channels.Entry{Account: k.Account, Channel: c})
	}
	return running, nil
}

// destinations are the channels of this configuration, whether they run at the moment or not: what is sent waits for
// them. Of several accounts of a network, "main" or the first by name is meant where the caller has none.
func (a *App) destinations() map[string]builtin.Destination {
	to := map[string]builtin.Destination{}
	for _, k := range a.kinds() {
		_, known := to[k.Kind]
		if d := k.reaches(a); d != nil && (!known || k.Name == mainAccount) {
			to[k.Kind] = *d
		}
	}
	return to
}

// mainAccount is the account of a network that is meant where none is named.
const mainAccount = "main"

// openDoor makes the front door: on an account that no kind names nobody may talk.
func (a *App) openDoor(r prometheus.Registerer) error {
	may, err := a.admissions(a.Store)
	if err != nil {
		return err
	}
	a.door, err = channels.NewFrontDoor(a.Bus, a.router, storage.NewChats(a.Store), channels.DoorOptions{
		Routing: a.routing(), Agents: a.agentIDs(), Access: may.Access, Groups: may.Groups,
		MaxAge: a.config.Channels.MaxAge, Pairings: may.Pairings,
		Trail: storage.NewAudit(a.Store), Log: a.log, Metrics: r,
	})
	return err
}

// admissions are who may talk where, by the settings and the chats of a database.
func (a *App) admissions(db *storage.DB) (channels.Admissions, error) {
	may := channels.Admissions{
		Chats: storage.NewChats(db), Pairings: storage.NewPairings(db),
		Access: map[channels.Account]policy.Access{}, Groups: map[channels.Account]channels.GroupRule{},
	}
	for _, k := range a.kinds() {
		set := k.access(a.config)
		may.Groups[k.Account] = k.groups
		list, err := set.List(k.Kind)
		if err == nil {
			may.Access[k.Account], err = policy.NewAccess(policy.AccessRule(set.Rule), list)
		}
		if err != nil {
			return may, fmt.Errorf("who may talk on %s: %w", k.Account, err)
		}
	}
	return may, nil
}

// SenderLike gives the sender that a principal with this id is in its channel. known says whether this version has the
// channel.
func SenderLike(p corebot.Principal) (sender corebot.Principal, known bool) {
	for _, k := range kinds() {
		if k.Kind == p.Channel {
			return corebot.Principal{Channel: k.Kind, Account: k.Name, ID: p.ID}, true
		}
	}
	for _, n := range Networks() {
		if n.Kind == p.Channel {
			return corebot.Principal{Channel: p.Channel, Account: cmp.Or(p.Account, mainAccount), ID: p.ID}, true
		}
	}
	return corebot.Principal{Channel: p.Channel, ID: p.ID}, false
}

// UnknownChat completes channel:account:chat, or channel:chat of a channel that has one account. The name of a channel
// that this version does not have is [corebot.ErrNotFound].
func UnknownChat(name string) (corebot.Key, error) {
	channel, chat, _ := strings.Cut(name, ":")
	sender, known := SenderLike(corebot.Principal{Channel: channel})
	if !known {
		return corebot.Key{}, corebot.ErrNotFound
	}
	if k, err := corebot.ParseKey(corebot.DefaultAgent + ":" + name); err == nil {
		return k, nil
	}
	return corebot.ParseKey(strings.Join([]string{corebot.DefaultAgent, channel, sender.Account, chat}, ":"))
}

// CanSpeak says whether a principal can be the sender of a message: the last admin is one who can.
func CanSpeak(p corebot.Principal) bool {
	sender, known := SenderLike(p)
	return known && sender == p
}

// Rules makes the policy of a configuration. A grant that opens nothing is an error that names tools.grants, a pattern
// that means nothing one that names approvals.
func Rules(c config.Config) (*policy.Policy, error) {
	o, err := policyOptions(c)
	if err != nil {
		return nil, err
	}
	p, err := policy.New(o)
	if err != nil {
		return nil, fmt.Errorf("tools.grants: %w", err)
	}
	return p, nil
}

func policyOptions(c config.Config) (policy.Options, error) {
	approvals := policy.Approvals{
		Mode: policy.ApprovalMode(c.Approvals.Mode), Always: c.Approvals.Always.Values(),
		Tainted: c.Approvals.Tainted.Values(),
	}
	if err := approvals.Validate(); err != nil {
		return policy.Options{}, fmt.Errorf("approvals: %w", err)
	}
	runs := c.Tools.Shell.Runs()
	if runs == config.ShellHost { // whatever the mode of approvals is
		approvals.Always = append(slices.Clone(approvals.Always), builtin.ShellExec)
	}
	open, err := openRoots(c)
	return policy.Options{
		ShellEnabled: runs != config.ShellOff, Sandbox: runs == config.ShellSandbox,
		Grants: c.Tools.Grants.List(), Approvals: approvals, Roots: open,
	}, err
}

// bootstrap is how the first admin is made.
func bootstrap(c config.Admin) (policy.Bootstrap, error) {
	b, err := policy.NewBootstrap(c.BootstrapKey.Reveal(), c.BootstrapMaxAttempts, c.BootstrapLockout)
	if err != nil {
		return b, fmt.Errorf("admin.bootstrap_key: %w", err)
	}
	return b, nil
}

// WebhookAddr is where the webhook listens, also when the settings left the port open; empty if it does not.
func (a *App) WebhookAddr() string {
	if a.webhook == nil {
		return ""
	}
	return a.webhook.Addr()
}

// ObservabilityAddr is where /health, /ready, /metrics and /status are; empty if they are not.
func (a *App) ObservabilityAddr() string {
	if a.server == nil {
		return ""
	}
	return a.server.Addr()
}

// openWebhook listens for programs that talk over HTTP.
func (a *App) openWebhook(ctx context.Context, r prometheus.Registerer) (_ *webhook.Webhook, err error) {
	c := a.config.Webhook
	o := webhook.Options{
		Routing: a.routing(), Addr: c.Addr, Token: c.Token.Reveal(), Secret: c.Secret.Reveal(),
		AllowedHosts: c.AllowedHosts.Values(), MaxBodyBytes: int64(c.MaxBodyBytes), MaxConnections: c.MaxConnections,
		MaxWaiting:  c.MaxStreams,
		Interactive: a.config.WebhookInteractive(),
		Callback:    c.CallbackURL, CallbackSecret: c.CallbackSecret.Reveal(),
		Live: a.Live, Log: a.log, Metrics: r,
	}
	if a.config.MCP.Serve.HTTP {
		if o.Guest, err = a.webClients(ctx, r); err != nil {
			return nil, err
		}
	}
	if a.webhook, err = webhook.New(storage.NewMailbox(a.Store), o); err != nil {
		return nil, err
	}
	a.opened("webhook", a.webhook)
	return a.webhook, nil
}

// accountLines tell in a line each how the accounts of this process are doing, for an admin in a chat. Errors of a
// platform are left out: others may read the chat.
func (a *App) accountLines(ctx context.Context) (lines []string) {
	all, err := running{a}.Channels(ctx)
	if err != nil {
		return []string{"The accounts of channels cannot be read at the moment."}
	}
	for _, s := range all {
		line := fmt.Sprintf("%s: %s for %s", s.Name(), s.State, time.Since(s.Since).Round(time.Second))
		if !s.LastEvent.IsZero() {
			line += fmt.Sprintf(", last event %s ago", time.Since(s.LastEvent).Round(time.Second))
		}
		if s.Backlog > 0 {
			line += fmt.Sprintf(", %d to send", s.Backlog)
		}
		lines = append(lines, line)
	}
	return lines
}

// Checked is what a check of an account has found.
type Checked struct {
	channels.Account
	OK     bool   `json:"ok"`
	Says   string `json:"says,omitempty"` // as whom the account is known, or what there is to check
	Error  string `json:"error,omitempty"`
	Advice string `json:"hint,omitempty"`
}

// checkTime bounds the check of one account.
const checkTime = 20 * time.Second

// CheckAccounts tries the settings of accounts as the next start would use them, beside a Corebot that runs. It makes
// each channel and has the channel connect once. which chooses the accounts; nil is all. The accounts that are always
// there connect to nothing.
func CheckAccounts(ctx context.Context, c config.Config, which func(channels.Account) bool,
	others ...channels.Network,
) (all []Checked) {
	a := &App{config: c, networks: append(Networks(), others...), log: zerolog.Nop()}
	for _, k := range a.kinds() {
		if which != nil && !which(k.Account) {
			continue
		}
		result := Checked{Account: k.Account, OK: true, Says: "nothing to connect to"}
		if k.network {
			says, err := a.check(ctx, k)
			if result.Says = says; err != nil {
				result.OK, result.Error, result.Advice = false, err.Error(), corebot.HintOf(err)
			}
		}
		all = append(all, result)
	}
	return all
}

func (a *App) check(ctx context.Context, k kind) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c, err := k.open(ctx, a, nil)
	if err != nil {
		return "", err
	}
	checker, can := c.(channels.Checker)
	if !can {
		return "its settings can be used; this kind of channel cannot try its connection", nil
	}
	return checker.Check(ctx)
}
