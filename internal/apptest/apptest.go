// Package apptest is a whole Corebot in a test: real storage, bus, tools, agent, router and front door, with a model
// that the test scripts. It works inside testing/synctest, where time is virtual. Make the kit in the bubble, with the
// bubble's t.
//
// Limits: no outbox runs, so replies wait in the queue, where [Kit.Told] can read them. The texts of the workspace are
// those of [Notes]. [Kit.Crash] imitates a crash: the store stops first, and running code can write nothing any more.
package apptest

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// Options of a [Kit]. Zero values make a Corebot without tools whose texts are empty.
type Options struct {
	Facts bool // turns find facts when they summarise, and recall them
	// of the database: that of a kit that was closed or crashed goes on where it was; a new one by default
	Dir      string
	Model    llm.Model // one that is never to be asked by default
	Tools    []tools.Tool
	Policy   policy.Options // the rules as they are by default
	Box      tools.Options  // who may approve is known from the store
	Notes    *Notes
	Agent    agent.Options
	Bus      bus.Options
	Router   router.Options
	Tasks    scheduler.Options
	Keeper   *corebot.Keeper                   // how long chats keep what is said in them
	Queueing corebot.Queueing                  // how prompts wait that find their chat busy
	Brain    router.Agent                      // instead of the real agent
	Ledger   func(router.Ledger) router.Ledger // around the router's ledger
	Journal  func(agent.Journal) agent.Journal // around the agent's journal
}

// Kit is a Corebot whose parts a test may use one by one.
type Kit struct {
	Dir         string
	DB          *storage.DB
	Bus         *bus.Bus
	Ledger      *storage.Ledger
	History     *storage.History
	Lives       *storage.Lives
	DeadLetters *storage.DeadLetters
	Grants      *storage.Grants
	Approvals   *storage.Approvals
	Waits       *storage.Waits
	Jobs        *storage.Jobs
	Agent       *agent.Agent
	Router      *router.Router
	Door        *channels.FrontDoor
	Registry    *prometheus.Registry

	t          testing.TB
	rules      *policy.Policy
	brain      router.Agent
	ledger     router.Ledger
	scheduler  *scheduler.Scheduler
	stopStore  func()
	stopRouter func()
	closed     bool
}

// New makes a kit whose store runs until the test ends. The router waits for [Kit.Start].
func New(t testing.TB, o Options) *Kit {
	t.Helper()
	k := &Kit{Dir: o.Dir, t: t, Registry: prometheus.NewRegistry(), stopRouter: func() {}}
	if k.Dir == "" {
		k.Dir = t.TempDir()
	}
	if err := Seed(k.Dir); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.DB, err = storage.Open(context.Background(), k.Dir, storage.Options{
		Keeper:  o.Keeper,
		Metrics: k.Registry, Limits: o.Bus.Limits,
		Accounting: o.Router.Spending.Accounting, Queueing: o.Queueing,
	}); err != nil {
		t.Fatal(err)
	}
	k.stopStore = background(func(ctx context.Context) { _ = k.DB.Run(ctx) })
	t.Cleanup(k.Close)
	k.Ledger, k.History, k.Lives = storage.NewLedger(k.DB), storage.NewHistory(k.DB), storage.NewLives(k.DB)
	k.DeadLetters, k.Grants, k.Approvals = storage.NewDeadLetters(k.DB), storage.NewGrants(k.DB),
		storage.NewApprovals(k.DB)
	k.Waits, k.Jobs = storage.NewWaits(k.DB), storage.NewJobs(k.DB)
	if err := k.join(o); err != nil {
		t.Fatal(err)
	}
	return k
}

// join makes what stands on the store.
func (k *Kit) join(o Options) error {
	var err error
	if k.rules, err = policy.New(o.Policy); err != nil {
		return err
	}
	o.Bus.Metrics = k.Registry
	if k.Bus, err = bus.New(storage.NewQueue(k.DB), o.Bus); err != nil {
		return err
	}
	if err := k.makeAgent(o); err != nil {
		return err
	}
	k.brain, k.ledger = o.Brain, k.Ledger
	if k.brain == nil {
		k.brain = k.Agent
	}
	if o.Ledger != nil {
		k.ledger = o.Ledger(k.ledger)
	}
	o.Router.Metrics = k.Registry
	o.Router.Spending.Books, o.Router.Chats = storage.NewBooks(k.DB), storage.NewChats(k.DB)
	o.Router.Tasks, o.Router.Planner = storage.NewTasks(k.DB), scheduler.Planner{}
	if k.scheduler, err = scheduler.New(storage.NewTasks(k.DB), o.Tasks); err != nil {
		return err
	}
	o.Router.Contexts = k.Agent
	return k.NewRouter(k.Bus, o.Router)
}

// NewRouter makes a router on another queue, and a door to it, in place of the kit's. Call it before [Kit.Start].
func (k *Kit) NewRouter(q router.Queue, o router.Options) (err error) {
	o.Workers = cmp.Or(o.Workers, 4)
	if o.Choices == nil {
		o.Choices = storage.NewChats(k.DB)
	}
	o.Pairings, o.Waits = storage.NewPairings(k.DB), k.Waits
	o.Jobs, o.Sessions = k.Jobs, sessions{storage.NewSessions(k.DB)}
	o.Links = storage.NewLinks(k.DB)
	k.Router, err = router.New(router.Parts{
		Queue: q, Ledger: k.ledger, Letters: k.DeadLetters, Lives: k.Lives, Approvals: k.Approvals, Agent: k.brain,
		Roles: k.Grants, Policy: k.rules,
	}, o)
	if err != nil {
		return err
	}
	k.DB.OnStop(k.Router.StopJob)
	everybody, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	if err != nil {
		return err
	}
	k.Door, err = channels.NewFrontDoor(k.Bus, k.Router, channels.Admissions{
		Chats:    storage.NewChats(k.DB),
		Accounts: map[channels.Account]channels.AccountRules{{Kind: Channel}: {Access: everybody, People: true}},
	}, channels.DoorOptions{})
	return err
}

// sessions has new chats beside old ones, as the terminal has.
type sessions struct{ *storage.Sessions }

func (sessions) Named(k corebot.Key, name string) (corebot.Key, error) {
	k.Chat, k.Thread = name, ""
	return k, k.Validate()
}

func (k *Kit) makeAgent(o Options) error {
	registry, err := tools.NewRegistry(o.Tools...)
	if err != nil {
		return err
	}
	o.Box.Log, o.Box.Metrics, o.Box.Approvers = zerolog.Nop(), k.Registry, k.Grants
	o.Box.Rules = k.Approvals
	box, err := tools.NewBox(registry, k.rules, k.Grants, o.Box)
	if err != nil {
		return err
	}
	if o.Model == nil {
		o.Model = Script()
	}
	if o.Notes == nil {
		o.Notes = &Notes{}
	}
	if o.Agent.Tokenizer == nil {
		o.Agent.Tokenizer = llm.Estimate{}
	}
	o.Agent.Metrics = k.Registry
	if o.Agent.Jobs == (corebot.JobBudget{}) {
		o.Agent.Jobs = corebot.JobBudget{Tokens: 400_000, Calls: 96}
	}
	journal := agent.Journal(k.Ledger)
	if o.Journal != nil {
		journal = o.Journal(journal)
	}
	parts := agent.Parts{
		Model: o.Model, Tools: toolbox{box}, Journal: journal, History: k.History,
		Notes: o.Notes, Roles: k.Grants,
	}
	if o.Facts {
		parts.Facts = knowledge{storage.NewFacts(k.DB), k.Ledger}
	}
	k.Agent, err = agent.New(parts, o.Agent)
	return err
}

// knowledge is what turns know as facts.
type knowledge struct {
	*storage.Facts
	ledger *storage.Ledger
}

func (k knowledge) Learn(ctx context.Context, d corebot.Delivery, s corebot.Step, facts []corebot.Fact) error {
	return k.ledger.Learn(ctx, d, s, facts)
}

// toolbox is the tools as the agent sees them.
type toolbox struct{ *tools.Box }

func (b toolbox) Begin(context.Context) (agent.Toolset, func()) {
	return toolbox{b.Frozen()}, func() {}
}

func (b toolbox) Call(ctx context.Context, who corebot.Caller, call corebot.ToolCall,
	step agent.Step,
) (corebot.ToolResult, error) {
	return b.Box.Call(ctx, who, call, step)
}

// background runs fn until stop is called, which waits for its end.
func background(fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fn(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Start runs the router and the scheduler.
func (k *Kit) Start() *Kit {
	k.stopRouter = background(func(ctx context.Context) {
		var both sync.WaitGroup
		defer both.Wait()
		both.Go(func() { _ = k.scheduler.Run(ctx) })
		if err := k.Router.Run(ctx); err != nil {
			k.t.Errorf("the router: %v", err)
		}
	})
	return k
}

// Shutdown stops the router as a SIGTERM does, and returns when it has drained.
func (k *Kit) Shutdown() { k.stopRouter() }

// Close shuts down and closes the database. It may be called twice.
func (k *Kit) Close() {
	k.stopRouter()
	k.Crash()
}

// Crash stops the store under everything that runs, then what runs, and closes the database.
func (k *Kit) Crash() {
	if k.closed {
		return
	}
	k.closed = true
	k.stopStore()
	k.stopRouter()
	if err := k.DB.Close(); err != nil {
		k.t.Error(err)
	}
}

// Claim takes the one message that is ready.
func (k *Kit) Claim() corebot.Delivery {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ds, err := k.Bus.Claim(ctx, corebot.InboundPool, 1)
	if err != nil {
		k.t.Fatalf("claim: %v", err)
	}
	return ds[0]
}
