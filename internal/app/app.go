// Package app joins the parts of Corebot: it makes them from the settings, hands each what it needs, and runs them
// together.
//
// It is the only place that knows both sides of an interface; join.go holds the proof that they fit.
//
//go:generate go test -run TestEverySeriesIsThereFromTheStartAndTheyAreFew . -args -metrics.update
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/api"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/console"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/httpapi"
	"github.com/corebot/corebot/internal/lifecycle"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/internal/sdnotify"
	"github.com/corebot/corebot/internal/trace"
	"github.com/corebot/corebot/internal/watchdog"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/observability"
	"github.com/corebot/corebot/observability/otlp"
	"github.com/corebot/corebot/observability/slo"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/scheduler/eventfiles"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// Options say what this run of Corebot is for.
type Options struct {
	Version string
	Log     zerolog.Logger
	// of the log; it learns the secrets that a reload brings; nil: nothing is taken out of the log
	Redactor *redact.Redactor
	// Serve makes a daemon of it: with the configured channels, the listeners and the control socket.
	// With neither Serve nor Attended, it runs neither router nor outbox: what is accepted waits for another run.
	Serve bool
	// Attended makes it the Corebot of a terminal or an MCP client, which ends with them. It has the control socket, so
	// that other processes can attach, and no other listener.
	Attended bool
	// Drain is how long turns may go on after the stop, if bus.drain allows more; 0: bus.drain.
	Drain time.Duration
	// Passing says that an attended Corebot ends when one message has its answer: a daemon that begins waits for its
	// end.
	Passing bool
	// Agent is the one agent of the settings that this process runs; empty: all of them.
	Agent string
	// Networks are further kinds of channels, beside those of this version.
	Networks []channels.Network
	// Systemd is told how the daemon is doing; nil: nobody is.
	Systemd *sdnotify.Notifier
}

// App is a whole Corebot on one home directory.
type App struct {
	Store     *storage.DB
	service   *operate.Service
	Bus       *bus.Bus
	Live      *live.Hub
	work      live.Work // what runs for each chat, also without a lease
	models    atomic.Pointer[choice]
	providers *chain.Metrics
	agents    agents
	disk      *roots.Disk // the directories of tools.roots
	files     *files
	version   string
	since     time.Time

	config     config.Config // as the parts were made
	level      *observability.Level
	accounting corebot.Accounting

	reloads   *prometheus.CounterVec
	reloading sync.Mutex
	inForce   config.Config // guarded by reloading

	log        zerolog.Logger
	redactor   *redact.Redactor
	degraded   *observability.Degraded
	spans      *otlp.Exporter // nil: nothing is traced
	tracer     *trace.Tracer
	stopping   atomic.Pointer[string] // why nothing more is accepted
	upkeep     upkeep
	watchdog   *watchdog.Watchdog
	objectives *slo.Monitor
	systemd    *sdnotify.Notifier
	senders    *tools.SenderFiles
	programs   *background.Set // those in the background, of all agents
	router     *router.Router
	gate       *taskGate
	scheduler  *scheduler.Scheduler
	events     *eventfiles.Directory
	door       *channels.FrontDoor
	outbox     *channels.Outbox
	terminals  *cli.Remote
	webhook    *webhook.Webhook
	clients    *serve.Service
	control    *control.Server
	channels   *channels.Supervisor
	answers    bool
	serves     bool
	passing    bool
	only       string // the one agent that this process runs; empty: all
	networks   []channels.Network
	server     *observability.Server
	console    *httpapi.Server  // nil: nobody listens
	talk       *api.Channel     // of programs that use the HTTP API; nil: there is none
	pages      *console.Channel // of the console; nil: it has no pages
	stores     operate.Stores   // of service
	undo       []undo
}

// undo is how something that was opened is closed again.
type undo struct {
	name  string
	close func() error
}

// DataDir is where a home keeps its database.
func DataDir(home string) string { return filepath.Join(home, "data") }

// New makes a Corebot. It opens files and listeners and starts nothing. If a step fails, New closes everything that it
// has opened.
func New(ctx context.Context, c config.Config, o Options) (_ *App, err error) {
	made := c
	if o.Drain > 0 {
		made.Bus.Drain = min(c.Bus.Drain, o.Drain)
	}
	a := &App{
		version: o.Version, since: time.Now(), config: made, inForce: c, level: new(observability.Level),
		Live: new(live.Hub), answers: o.Serve || o.Attended, serves: o.Serve, passing: o.Passing, only: o.Agent,
		systemd: o.Systemd, networks: append(Networks(), o.Networks...),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := checkOwner(places(c)...); err != nil {
		return nil, err
	}
	registry := observability.NewRegistry(o.Version)
	if err = a.makeLog(o, registry); err != nil {
		return nil, err
	}
	if err = a.makeTracer(registry); err != nil {
		return nil, err
	}
	if err = a.openStore(ctx, registry); err != nil {
		return nil, err
	}
	if err = a.makeService(ctx, registry); err != nil {
		return nil, err
	}
	if err = a.makeObjectives(registry); err != nil {
		return nil, err
	}
	offered := busOptions(c, registry)
	offered.Offered, offered.Tracer = a.objectives.Accepted, a.tracer
	if a.Bus, err = bus.New(storage.NewQueue(a.Store), offered); err != nil {
		return nil, err
	}
	if err = a.makeRouter(ctx, registry); err != nil {
		return nil, err
	}
	if err = a.makeScheduler(registry); err != nil {
		return nil, err
	}
	if err = a.makeChannels(ctx, registry); err != nil {
		return nil, err
	}
	if a.answers {
		if err = a.makeWatchdog(registry); err == nil {
			err = a.listen(o, registry)
		}
	}
	return a, err
}

// makeLog makes what tells of all the rest: the log, which learns the secrets, and what is reported as degraded.
func (a *App) makeLog(o Options, r prometheus.Registerer) error {
	counter, err := observability.NewCounter(r)
	if err != nil {
		return err
	}
	a.log = o.Log.Hook(a.level, counter)
	if err := a.level.Set(a.config.Log.Level); err != nil {
		return err
	}
	if err := a.learnSecrets(o.Redactor); err != nil {
		return err
	}
	if a.reloads, err = newReloads(r); err != nil {
		return err
	}
	a.degraded, err = observability.NewDegraded(r)
	return err
}

// makeTracer makes what exports spans, in a process that answers.
func (a *App) makeTracer(r prometheus.Registerer) (err error) {
	if !a.config.Tracing.Enabled || !a.answers {
		return nil
	}
	if a.spans, err = otlp.New(otlp.Options{Env: os.Getenv, Version: a.version, Log: a.log, Metrics: r}); err != nil {
		return err
	}
	a.tracer = a.spans.Tracer(a.config.Tracing.Propagate.Values()...)
	return a.redactor.Learn(a.spans.Secrets())
}

func (a *App) openStore(ctx context.Context, r prometheus.Registerer) (err error) {
	c := a.config
	if a.accounting, err = c.Accounting(); err != nil {
		return err
	}
	first, err := bootstrap(c.Admin)
	if err != nil {
		return err
	}
	if a.Store, err = storage.Open(ctx, DataDir(c.Home), storage.Options{
		Accounting: a.accounting, Bootstrap: first, Keeper: c.Chats.Keeper(),
		Log: a.log, Metrics: r, Limits: limits(c.Bus), Queueing: queueing(c), Speaks: CanSpeak,
		TaskFailures: c.Tasks.MaxFailures, TasksWithin: c.SLO.TasksWithin,
		Owner:   func() corebot.Principal { return ownerOf(c.Home) },
		Attends: attends,
	}); err != nil {
		return err
	}
	a.opened("database", a.Store)
	a.files = newFiles(a.Store, c, func() string { return a.upkeep.space.Low() })
	return nil
}

// makeService makes what operators and chat commands call, and the upkeep of the home.
func (a *App) makeService(ctx context.Context, r prometheus.Registerer) (err error) {
	if a.gate, err = a.taskGate(a.Store); err != nil {
		return err
	}
	if a.upkeep.backups, err = newKeeper(ctx, a.Store, a.config, a.serves, a.log, r); err != nil {
		return err
	}
	a.degraded.Watch(observability.BackupFails, a.upkeep.backups.Failing)
	all := stores(a.Store, a.config, func() corebot.Accounting { return a.accounting }, running{a}, a.gate)
	if err = a.makeVectors(); err != nil {
		return err
	}
	all.Sayings = a.upkeep.vectors
	all.Forgetter = forgetter{
		a.Store, a.config.Home, a.files.Store, func() *background.Set { return a.programs }, &a.work,
	}
	all.Tokens, all.Console = revocations{all.Tokens, a}, logouts{all.Console, a}
	all.Contexts, all.Vitals, all.Backups = running{a}, running{a}, a.upkeep.backups
	a.stores, a.service = all, operate.NewRunning(running{a}, all)
	return a.makeUpkeep(r)
}

// makeScheduler makes what runs tasks at their times, and the directory that takes tasks as files.
func (a *App) makeScheduler(r prometheus.Registerer) (err error) {
	if err := checkHeartbeats(a.config); err != nil {
		return err
	}
	a.scheduler, err = scheduler.New(storage.NewTasks(a.Store), scheduler.Options{
		Gate: a.gate, AtOnce: max(a.config.Router.Workers/2, 1),
		MaxLate: a.config.Tasks.MaxLate, Log: a.log, Metrics: r,
	})
	if err != nil || !a.serves {
		return err
	}
	a.events, err = a.eventFiles(r)
	return err
}

// listen opens what a daemon can be reached by, beside its channels.
func (a *App) listen(o Options, r prometheus.Gatherer) (err error) {
	if a.control, err = control.Listen(DataDir(a.config.Home), a.operations()); err != nil {
		return err
	}
	a.opened("control socket", a.control)
	if o.Serve && a.config.Observability.Enabled {
		if a.server, err = a.observe(r); err != nil {
			return err
		}
		a.opened("observability listener", a.server)
	}
	if o.Serve && a.config.Console.Enabled {
		return a.openConsole()
	}
	return nil
}

func (a *App) opened(name string, c io.Closer) {
	a.undo = append(a.undo, undo{name, c.Close})
}

// failingChannels names the accounts whose connections fail.
func (a *App) failingChannels(context.Context) string {
	var names []string
	for _, account := range a.channels.Down() {
		names = append(names, account.String())
	}
	return strings.Join(names, ", ")
}

// Run runs everything until ctx ends. It stops in the reverse order of starting: no new messages, then the turns drain,
// then sends under way end, then the writer commits what is left. Replies that were not sent yet leave at the next
// start.
func (a *App) Run(ctx context.Context) error {
	var services []lifecycle.Service
	if a.tracer != nil { // first, so that it ends last and has the spans of all others
		services = append(services, lifecycle.Service{Name: "tracing", Run: a.spans.Run})
	}
	services = append(services, lifecycle.Service{Name: "store", Run: a.Store.Run})
	services = append(services, a.upkeep.services()...)
	if a.server != nil {
		services = append(services, lifecycle.Service{Name: "observability", Run: a.server.Run})
	}
	if a.control != nil {
		services = append(services, lifecycle.Service{Name: "control", Run: a.control.Run})
	}
	if a.console != nil {
		services = append(services, lifecycle.Service{Name: "console", Run: a.console.Run})
	}
	if a.answers {
		services = append(services,
			lifecycle.Service{Name: "workspace", Run: waitOut(a.agents.sweep)},
			lifecycle.Service{Name: "outbox", Run: waitOut(a.channels.Send)},
			lifecycle.Service{Name: "typing", Run: func(ctx context.Context) error {
				return a.channels.Type(ctx, a.Live)
			}},
			lifecycle.Service{Name: "drafts", Run: func(ctx context.Context) error {
				return a.channels.Draft(ctx, a.Live)
			}},
			lifecycle.Service{Name: "mcp", Run: a.agents.runServers},
			lifecycle.Service{Name: "router", Run: a.router.Run},
			lifecycle.Service{Name: "scheduler", Run: a.runScheduler},
			lifecycle.Service{Name: "replays", Run: storage.NewDeadLetters(a.Store).RunReplays},
			lifecycle.Service{Name: "notices", Run: func(ctx context.Context) error {
				return storage.NewDeadLetters(a.Store).RunNotices(ctx, router.ToldTogether)
			}},
			lifecycle.Service{Name: "channels", Run: a.receive},
			lifecycle.Service{Name: "watchdog", Run: a.watchdog.Run},
			lifecycle.Service{Name: "objectives", Run: a.objectives.Run},
			lifecycle.Service{Name: "systemd", Run: a.tellSystemd})
	}
	if a.events != nil {
		services = append(services, lifecycle.Service{Name: "events", Run: a.events.Run})
	}
	a.log.Info().Str("home", a.config.Home).Str("version", Version()).Int("pid", os.Getpid()).Msg("corebot runs")
	defer context.AfterFunc(ctx, func() { a.stops("it was told to") })()
	for i, s := range services {
		services[i].Run = a.endsProgram(s)
	}
	return lifecycle.Run(ctx, a.log, services...)
}

// receive runs the channels. Replies that a callback refused can wait for an hour. If the settings have no callback any
// more, callers fetch these replies at once.
func (a *App) receive(ctx context.Context) error {
	queue := storage.NewQueue(a.Store)
	for _, account := range a.channels.PulledAccounts() {
		if _, err := queue.MakeDue(ctx, account.Kind, account.Name); err != nil {
			a.log.Warn().Err(err).Str("channel", account.Kind).
				Msg("replies that wait to be sent again were not made due")
		}
	}
	return a.channels.Receive(ctx)
}

// stops notes why Corebot stops: from then on it is not ready, though it may go on for as long as the turns under way
// take.
func (a *App) stops(why string) {
	text := "corebot is stopping, and accepts nothing more: " + why
	if a.stopping.CompareAndSwap(nil, &text) {
		a.told(a.systemd.Stopping())
	}
}

// endsProgram has the end of a service, which ends all others, be noted at once.
func (a *App) endsProgram(s lifecycle.Service) func(context.Context) error {
	return func(ctx context.Context) error {
		err := s.Run(ctx)
		a.stops(fmt.Sprintf("its service %q has ended", s.Name))
		return err
	}
}

// waitOut keeps a service without work from ending the program.
func waitOut(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		if err == nil {
			<-ctx.Done()
		}
		return err
	}
}

// Close closes what New opened, last opened first. Call it after Run has returned.
func (a *App) Close() error {
	var errs []error
	for _, u := range slices.Backward(a.undo) {
		if err := u.close(); err != nil {
			errs = append(errs, fmt.Errorf("close the %s: %w", u.name, err))
		}
	}
	a.undo = nil
	return errors.Join(errs...)
}
