package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/api"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/channels/discord"
	"github.com/corebot/corebot/channels/irc"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/console"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools/builtin"
)

// account is an account of a kind of channel, as the settings have it.
type account struct {
	channels.Account
	kind   channels.Kind
	access config.Access      // who may talk
	groups channels.GroupRule // which messages of groups are prompts; empty: all
	off    bool               // the settings switch it off
	open   func(context.Context, prometheus.Registerer) (channels.Channel, error)
}

// Networks lists the kinds of channels whose accounts are in the settings, under channels.KIND.ACCOUNT. A new network
// is a folder, and a line here.
func Networks() []channels.Network {
	return []channels.Network{
		telegram.Network(), mail.Network(), matrix.Network(), irc.Network(), slack.Network(), discord.Network(),
	}
}

// accounts is the table of kinds, with the accounts of each: those that are always there, and those of the settings.
// All code that depends on the kind of a channel asks the table. An account is opened after those before it.
func (a *App) accounts() []account {
	c := a.config
	all := []account{
		{kind: cli.Kind(), access: c.Channels.CLI, open: a.openTerminals},
		{kind: serve.Kind(), access: c.Channels.MCP, open: a.openClients},
		{kind: api.Kind(), access: c.Channels.API, off: !c.Console.Enabled, open: a.openAPI},
		{
			kind: console.Kind(), access: config.Access{Rule: string(policy.AccessOpen)}, off: !c.Console.Enabled,
			open: a.openConsoleChannel,
		},
		{kind: webhook.Kind(), access: c.Channels.Webhook, off: !c.Webhook.Enabled, open: a.openWebhook},
	}
	for i, standing := range all {
		all[i].Account = standing.kind.Usual()
	}
	for _, settings := range c.Accounts.List() {
		for _, n := range a.networks {
			if n.Name == settings.Kind {
				all = append(all, a.accountOf(n, settings))
			}
		}
	}
	return all
}

// accountOf is one account of a network.
func (a *App) accountOf(n channels.Network, settings config.Account) account {
	of := channels.Account{Kind: settings.Kind, Name: settings.Name}
	return account{
		Account: of, kind: n.Kind,
		access: settings.Common.Access(), groups: channels.GroupRule(settings.Common.Groups),
		open: func(context.Context, prometheus.Registerer) (channels.Channel, error) {
			log := a.log.With().Str("channel", of.Kind).Str("account", of.Name).Logger()
			return n.Open(settings.Decode, channels.Site{
				Account: of, Log: log, Files: a.files, Dir: DataDir(a.config.Home),
			})
		},
	}
}

// kinds lists all kinds, whether the settings have accounts of them or not.
func kinds(networks []channels.Network) (all []channels.Kind) {
	for _, standing := range new(App).accounts() {
		all = append(all, standing.kind)
	}
	for _, n := range networks {
		all = append(all, n.Kind)
	}
	return all
}

// ownersChannel names the channels of the kinds that only the owner of the home uses.
func ownersChannel() corebot.OwnersChannel {
	var names []string
	for _, k := range kinds(nil) {
		if k.Owner {
			names = append(names, k.Name)
		}
	}
	return corebot.OwnersChannel(strings.Join(names, ","))
}

// networkSettings are the networks as the settings know them.
func networkSettings(networks []channels.Network) (all []config.Network) {
	for _, n := range networks {
		all = append(all, config.Network{
			Kind: n.Name, Standard: n.Standard, Redelivers: n.Redelivers,
		})
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

// isNetwork says whether a kind of channel is a chat network, in whose chats people read.
func (a *App) isNetwork(name string) bool {
	return slices.ContainsFunc(kinds(a.networks), func(k channels.Kind) bool { return k.Name == name && k.Network })
}

// answerAfter is how long an answer in a kind of channel waits for an approval, before it comes without the call. Where
// a program reads, it always waits: the program takes the first reply for all there is.
func (a *App) answerAfter(channel string) time.Duration {
	all := kinds(a.networks)
	i := slices.IndexFunc(all, func(k channels.Kind) bool { return k.Name == channel })
	if i < 0 || !all[i].People || !all[i].Owner && !all[i].Network && !a.config.WebhookInteractive() {
		return 0
	}
	return a.config.Approvals.AnswerAfter
}

// untrusted names what taints turns, by the kinds whose messages do.
func (a *App) untrusted() map[string]string {
	all := map[string]string{}
	for _, k := range kinds(a.networks) {
		if k.Taints != "" {
			all[k.Name] = k.Taints
		}
	}
	return all
}

// served says whether a process serves an account; daemon says that the process is `corebot serve`.
func (x account) served(daemon bool) bool { return !x.off && (daemon || !x.kind.Daemon) }

// openChannels makes the channels of this run.
func (a *App) openChannels(ctx context.Context, r prometheus.Registerer) (running []channels.Entry, err error) {
	for _, x := range a.accounts() {
		if !a.answers || !x.served(a.serves) {
			continue
		}
		c, err := x.open(ctx, r)
		if err != nil {
			return nil, err
		}
		running = append(running, channels.Entry{Account: x.Account, Channel: c})
	}
	return running, nil
}

// destinations are the channels of this configuration, whether they run at the moment or not: what is sent waits for
// them. Of several accounts of a network, the usual one or the first by name is meant where the caller has none.
func (a *App) destinations() map[string]builtin.Destination {
	to, routing := map[string]builtin.Destination{}, a.routing()
	for _, x := range a.accounts() {
		if _, known := to[x.Kind]; x.off || known && x.Account != x.kind.Usual() {
			continue
		}
		d := builtin.Destination{Account: x.Name, AnyChat: x.kind.AnyChat}
		if !x.kind.AnyAgent {
			d.AgentOf = func(chat string) string { return routing.Key(x.Kind, x.Name, chat).Agent }
		}
		to[x.Kind] = d
	}
	return to
}

// openDoor makes the front door: on an account that no kind names nobody may talk.
func (a *App) openDoor(r prometheus.Registerer) error {
	may, err := a.admissions(a.Store)
	if err != nil {
		return err
	}
	for _, x := range a.accounts() {
		if x.off && !x.kind.People { // nothing comes in there: the door needs no series for it
			delete(may.Accounts, x.Account)
		}
	}
	a.door, err = channels.NewFrontDoor(a.Bus, a.router, may, channels.DoorOptions{
		Routing: a.routing(), Agents: a.agentIDs(), MaxAge: a.config.Channels.MaxAge,
		Trail: storage.NewAudit(a.Store), Files: a.files, Log: a.log, Metrics: r,
	})
	return err
}

// admissions are who may talk where, by the settings and the chats of a database.
func (a *App) admissions(db *storage.DB) (channels.Admissions, error) {
	may := channels.Admissions{
		Chats: storage.NewChats(db), Pairings: storage.NewPairings(db),
		Accounts: map[channels.Account]channels.AccountRules{},
	}
	for _, x := range a.accounts() {
		rules := channels.AccountRules{Groups: x.groups, People: x.kind.People}
		list, err := x.access.List(x.Kind)
		if err == nil {
			rules.Access, err = policy.NewAccess(policy.AccessRule(x.access.Rule), list)
		}
		if err != nil {
			return may, fmt.Errorf("who may talk on %s: %w", x.Account, err)
		}
		may.Accounts[x.Account] = rules
	}
	return may, nil
}

// SenderLike gives the sender that a principal with this id is in its channel. known says whether this version has the
// channel.
func SenderLike(p corebot.Principal) (sender corebot.Principal, known bool) {
	for _, k := range kinds(Networks()) {
		switch {
		case k.Name != p.Channel:
		case k.Network && p.Account != "":
			return p, true
		default:
			return corebot.Principal{Channel: p.Channel, Account: k.Account, ID: p.ID}, true
		}
	}
	return corebot.Principal{Channel: p.Channel, ID: p.ID}, false
}

// UnknownChat completes channel:account:chat, or channel:chat of a channel that has one account. The name of a channel
// that this version does not have is [corebot.ErrNotFound]. The chat has the agent that answers there.
func UnknownChat(name string, agents corebot.Routing) (corebot.Key, error) {
	channel, chat, _ := strings.Cut(name, ":")
	sender, known := SenderLike(corebot.Principal{Channel: channel})
	if !known {
		return corebot.Key{}, corebot.ErrNotFound
	}
	k, err := corebot.ParseKey(corebot.DefaultAgent + ":" + name)
	if err != nil {
		k, err = corebot.ParseKey(strings.Join([]string{corebot.DefaultAgent, channel, sender.Account, chat}, ":"))
	}
	k.Agent = agents.Key(k.Channel, k.Account, k.Chat).Agent
	return k, err
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
func (a *App) openWebhook(ctx context.Context, r prometheus.Registerer) (_ channels.Channel, err error) {
	c := a.config.Webhook
	o := webhook.Options{
		Routing: a.routing(), Addr: c.Addr, Token: c.Token.Reveal(), Secret: c.Secret.Reveal(),
		AllowedHosts: c.AllowedHosts.Values(), MaxBodyBytes: int64(c.MaxBodyBytes), MaxConnections: c.MaxConnections,
		MaxWaiting:  c.MaxStreams,
		Interactive: a.config.WebhookInteractive(),
		Callback:    c.CallbackURL, CallbackSecret: c.CallbackSecret.Reveal(),
		Words: storage.NewWaits(a.Store).As(corebot.AuditEvent{Entry: corebot.EntryWord}),
		Files: a.files,
		Live:  a.Live, Log: a.log, Metrics: r, Traced: a.tracer != nil,
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
		line := fmt.Sprintf("%s: %s", s.Name(), s.State)
		if !s.Since.IsZero() {
			line += " for " + time.Since(s.Since).Round(time.Second).String()
		}
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

// checksAtOnce is how many accounts are checked at once.
const checksAtOnce = 8

// CheckAccounts tries the settings of accounts as the next start would use them, beside a Corebot that runs. It makes
// each channel and has the channel connect once. which chooses the accounts; nil is all. The accounts that are always
// there connect to nothing.
func CheckAccounts(ctx context.Context, c config.Config, which func(channels.Account) bool,
	others ...channels.Network,
) (all []Checked) {
	a := &App{config: c, networks: append(Networks(), others...), log: zerolog.Nop()}
	meant := slices.DeleteFunc(a.accounts(), func(x account) bool { return which != nil && !which(x.Account) })
	all = make([]Checked, len(meant))
	var checking sync.WaitGroup // one that does not answer holds up no other
	places := make(chan struct{}, checksAtOnce)
	for i, x := range meant {
		all[i] = Checked{Account: x.Account, OK: true, Says: "nothing to connect to"}
		if !x.kind.Network {
			continue
		}
		checking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			says, err := a.check(ctx, x)
			if all[i].Says = says; err != nil {
				all[i].OK, all[i].Error, all[i].Advice = false, x.Naming(err.Error()), x.Naming(corebot.HintOf(err))
			}
		})
	}
	checking.Wait()
	return all
}

// checkNetworks looks at the accounts of chat networks, and reaches none of them.
func checkNetworks(c config.Config) (findings []Finding) {
	a := &App{config: c, networks: Networks(), log: zerolog.Nop()}
	for _, x := range a.accounts() {
		if !x.kind.Network {
			continue
		}
		switch {
		case policy.AccessRule(x.access.Rule) == policy.AccessAllowlist && len(x.access.Allowlist.Values()) == 0:
			findings = append(findings, warn(fmt.Sprintf("set channels.%s.%s.access to pairing, or fill its allowlist",
				x.Kind, x.Name), "nobody may talk on %s: its allowlist is empty", x.Account))
		default:
			findings = append(findings, ok("%s, %s: access is %s (`corebot channels check %s` tries it)", x.Account,
				x.kind.About, x.access.Rule, x.Account))
		}
	}
	return findings
}

func (a *App) check(ctx context.Context, x account) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	c, err := x.open(ctx, nil)
	if err != nil {
		return "", err
	}
	checker, can := c.(channels.Checker)
	if !can {
		return "its settings can be used; this kind of channel cannot try its connection", nil
	}
	return checker.Check(ctx)
}

// chatSessions has the sessions that chat commands change.
type chatSessions struct {
	*storage.Sessions
	a *App
}

// Named is a chat beside another one. Only where a chat begins with its first message is a name enough for a new one.
// Where callers name the chats, the name of the other one stands before it: a sender writes into no chat that the
// caller can keep for somebody else.
func (s chatSessions) Named(k corebot.Key, name string) (corebot.Key, error) {
	all := kinds(s.a.networks)
	i := slices.IndexFunc(all, func(kind channels.Kind) bool { return kind.Name == k.Channel })
	if i < 0 || !all[i].Owner && !all[i].AnyChat {
		return corebot.Key{}, fmt.Errorf("%w: chats of %s are made on the platform, and cannot be forked",
			corebot.ErrInvalid, k.Channel)
	}
	if !all[i].Owner {
		name = k.Chat + "~" + strings.TrimPrefix(strings.TrimPrefix(name, k.Chat+"~"), k.Chat+"-")
	}
	to := corebot.Key{Agent: k.Agent, Channel: k.Channel, Account: k.Account, Chat: name}
	routing := s.a.routing()
	here, there := routing.Key(k.Channel, k.Account, k.Chat).Agent, routing.Key(k.Channel, k.Account, name).Agent
	if here != there {
		return corebot.Key{}, fmt.Errorf("%w: in a chat called %q the agent %s answers, which has not been told this",
			corebot.ErrInvalid, name, there)
	}
	return to, to.Validate()
}
