package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// TurnOptions say how much [Turn] measures. [DefaultTurnOptions] are the workload that the targets are for.
type TurnOptions struct {
	Messages int // of the crowded phase
	Chats    int // that they are dealt out to; not more than Messages
	Clients  int // at once, each with one chat at a time
	Single   int // messages of the idle phase, one at a time
	Rounds   int
	// where the program keeps its home, for what the machine can do beside the figures; the working directory
	Dir      string
	Progress func(string) // told what is done, a line each; may be nil
}

// DefaultTurnOptions are the workload that the targets are for.
func DefaultTurnOptions() TurnOptions {
	return TurnOptions{Messages: 10_000, Chats: 1_000, Clients: 64, Single: 1_000, Rounds: 5}
}

// Validate names the first option that cannot be used, as the command line spells it.
func (o TurnOptions) Validate() error {
	return cmp.Or(
		between("messages", o.Messages, 1, maxMessages), between("chats", o.Chats, 1, o.Messages),
		between("clients", o.Clients, 1, maxClients), between("single", o.Single, 1, maxMessages),
		between("rounds", o.Rounds, 1, maxRounds),
	)
}

// maxClients keeps below what the webhook lets wait at once by default.
const maxClients = 200

// Program is a running Corebot with an enabled webhook, which asks the endpoint for its answers and has no other
// callers.
type Program struct {
	Webhook string // such as http://127.0.0.1:8788
	Token   string // of the webhook
	Metrics string // such as http://127.0.0.1:3210/metrics
	Model   *Endpoint
}

// turnBench is a measurement that goes on.
type turnBench struct {
	opts    TurnOptions
	program Program
	client  *load.Client

	quietPause, idleTime time.Duration

	turns, sharing, crowdedCommits, cpu Series // crowded
	added50, added99, model50           Series // idle
	commits, rows, idleCommits          Series
	fsync, raw                          Series // of the machine
}

// Turn measures the whole way, from POST /webhook to the reply that can be read at /webhook/outbound:
//
//   - Crowded: many clients at once. A client takes a chat, posts its messages one after another, and follows its
//     replies with long polls. It checks that each message has its one reply in order, and takes the next chat.
//   - Idle: one message at a time, with one long poll for its reply. The time without the model's own time is what
//     Corebot added. Commits per turn are counted here, where turns cannot share them. The program's own commits do not
//     count.
//
// The program keeps what was said; each round has chats of its own.
func Turn(ctx context.Context, p Program, o TurnOptions) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	return newTurnBench(p, o).measure(ctx)
}

func newTurnBench(p Program, o TurnOptions) *turnBench {
	return &turnBench{
		opts: o, program: p, client: load.NewClient(p.Webhook, p.Token), quietPause: quietPause,
		idleTime: idleTime,
	}
}

func (b *turnBench) measure(ctx context.Context) (Report, error) {
	defer b.client.Close()
	// a program that is measured twice must not take messages for duplicates
	run := fmt.Sprintf("bench-%d", time.Now().UnixMilli())
	for n := range b.opts.Rounds {
		for _, part := range []struct {
			name string
			run  func(ctx context.Context, prefix string) error
		}{{"fsync and raw inserts", b.machine}, {"crowded", b.crowded}, {"idle", b.idle}} {
			b.tell("round %d of %d: %s", n+1, b.opts.Rounds, part.name)
			if err := part.run(ctx, fmt.Sprintf("%s-%d-%s", run, n, part.name)); err != nil {
				return Report{}, fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return b.report(), nil
}

func (b *turnBench) tell(format string, args ...any) {
	if b.opts.Progress != nil {
		b.opts.Progress(fmt.Sprintf(format, args...))
	}
}

// rawBytes is how long the bodies of raw inserts are: those of the workload that `bench bus` has.
const rawBytes = 512

// machine measures what turns are compared with.
func (b *turnBench) machine(ctx context.Context, _ string) error {
	return measureMachine(ctx, cmp.Or(b.opts.Dir, "."), b.opts.Messages, rawBytes, &b.fsync, &b.raw)
}

// crowded measures turns per second, and how many operations the store put into one commit meanwhile.
func (b *turnBench) crowded(ctx context.Context, prefix string) error {
	before, err := waitUntilIdle(ctx, b.program.Metrics, b.quietPause)
	if err != nil {
		return err
	}
	chats := make(chan conversation, b.opts.Chats)
	for n := range b.opts.Chats {
		chats <- conversation{
			id:       fmt.Sprintf("%s-%05d", prefix, n),
			messages: b.opts.Messages*(n+1)/b.opts.Chats - b.opts.Messages*n/b.opts.Chats,
		}
	}
	close(chats)
	err = timed(b.opts.Messages, &b.turns, &b.cpu, func() error {
		return crowd(ctx, b.opts.Clients, func(ctx context.Context) error {
			for c := range chats {
				if err := c.converse(ctx, b.client); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	after, err := waitUntilIdle(ctx, b.program.Metrics, b.quietPause)
	commits := after.commits - before.commits
	b.sharing = append(b.sharing, (after.operations-before.operations)/commits)
	b.crowdedCommits = append(b.crowdedCommits, commits/float64(b.opts.Messages))
	return err
}

// perChat is how many messages the idle phase sends to one chat: as many as the crowded one does by default, so that
// prompts are as long.
const perChat = 10

// idle measures what Corebot adds to the model's own time, and what a turn commits.
func (b *turnBench) idle(ctx context.Context, prefix string) error {
	idle, err := watchIdle(ctx, b.program.Metrics, b.idleTime)
	if err != nil {
		return err
	}
	before, err := waitUntilIdle(ctx, b.program.Metrics, b.quietPause)
	if err != nil {
		return err
	}
	added, model, err := b.oneByOne(ctx, prefix)
	if err != nil {
		return err
	}
	after, err := waitUntilIdle(ctx, b.program.Metrics, b.quietPause)
	commits, rows := idle.perTurn(before, after, after.at.Sub(before.at).Seconds(), b.opts.Single)
	b.commits, b.rows, b.idleCommits = append(b.commits, commits), append(b.rows, rows),
		append(b.idleCommits, idle.commits)
	b.added50, b.added99 = append(b.added50, added.quantile(0.5)), append(b.added99, added.quantile(0.99))
	b.model50 = append(b.model50, model.quantile(0.5))
	return err
}

// oneByOne sends messages one at a time and says of each turn how much the model took and how much the rest.
func (b *turnBench) oneByOne(ctx context.Context, prefix string) (added, model latencies, err error) {
	var c conversation
	for n := range b.opts.Single {
		if n%perChat == 0 {
			c = conversation{id: fmt.Sprintf("%s-%05d", prefix, n/perChat), messages: perChat}
		}
		requests, spent, started := b.program.Model.Requests(), b.program.Model.Spent(), time.Now()
		if err := c.post(ctx, b.client); err != nil {
			return nil, nil, err
		}
		if err := c.follow(ctx, b.client); err != nil {
			return nil, nil, err
		}
		took, models := time.Since(started), b.program.Model.Spent()-spent
		if asked := b.program.Model.Requests() - requests; asked != 1 {
			return nil, nil, fmt.Errorf("the model was asked %d times in one turn: has the program another caller, "+
				"or another model?", asked)
		}
		added, model = append(added, took-models), append(model, models)
	}
	return added, model, nil
}

// conversation is one chat, as a client sees it.
type conversation struct {
	id       string
	messages int // that it will have
	posted   int
	answered int
	cursor   string
}

func (c *conversation) messageID(n int) string { return fmt.Sprintf("%s-%05d", c.id, n) }

// converse posts all messages of a chat and follows its replies to the last.
func (c conversation) converse(ctx context.Context, client *load.Client) error {
	for c.posted < c.messages {
		if err := c.post(ctx, client); err != nil {
			return err
		}
	}
	return c.follow(ctx, client)
}

// post publishes the next message.
func (c *conversation) post(ctx context.Context, client *load.Client) error {
	_, err := client.Post(ctx, load.Message{
		ID: c.messageID(c.posted), ChatID: c.id, Sender: c.id,
		Content: "What is the answer to message " + c.messageID(c.posted) + "?",
	})
	c.posted++
	return err
}

const (
	pollTime = 10 * time.Second // of one request for replies
	patience = 60 * time.Second // until the next reply
)

var errNoReply = fmt.Errorf("no reply came in %v", patience)

// follow reads replies until every message that was posted has its own.
func (c *conversation) follow(ctx context.Context, client *load.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoReply)
	defer cancel()
	for c.answered < c.posted {
		page, next, err := client.Replies(ctx, c.id, c.cursor, pollTime)
		if err != nil {
			return fmt.Errorf("%d of %d messages are answered: %w", c.answered, c.posted, err)
		}
		for _, r := range page {
			if want := c.messageID(c.answered); r.InReplyTo != want || r.Content != Reply {
				return fmt.Errorf("the next reply should be the model's to %s, and is %+v", want, r)
			}
			c.answered++
		}
		if c.cursor = next; c.answered < c.posted && ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("%s: %d of %d messages are answered", c.id, c.answered,
				c.posted))
		}
	}
	return nil
}

func (b *turnBench) report() Report {
	o := b.opts
	return Report{
		Title: fmt.Sprintf(
			"turn: %s messages over %s chats from %d clients, then %s one at a time; medians of %d rounds",
			grouped(int64(o.Messages)), grouped(int64(o.Chats)), o.Clients, grouped(int64(o.Single)), o.Rounds),
		Settings: []Setting{
			{"messages", o.Messages},
			{"chats", o.Chats},
			{"clients", o.Clients},
			{"single", o.Single},
			{"rounds", o.Rounds},
		},
		Figures: []Figure{
			{
				Name: "turns_per_s", Label: "accepted and answered", Series: b.turns, Target: Target{Value: 3_000},
				OfCeiling: b.turns.over(b.raw),
			},
			{
				Name: "added_p50_ms", Label: "added to the model p50, idle", Unit: Milliseconds, Series: b.added50,
				Target: Target{Value: 3, AtMost: true},
			},
			{Name: "added_p99_ms", Label: "added to the model p99, idle", Unit: Milliseconds, Series: b.added99},
			{
				Name: "commits_per_turn", Label: "commits of a turn, idle", Unit: Ratio, Series: b.commits,
				Target: Target{Value: 4, AtMost: true},
			},
			{Name: "rows_per_turn", Label: "rows written by a turn, idle", Unit: Ratio, Series: b.rows},
			{Name: "cpu_ms_per_turn", Label: "CPU of a turn, clients included", Unit: Milliseconds, Series: b.cpu},
			{
				Name: "crowded_commits_per_turn", Label: "commits of a turn, crowded", Unit: Ratio,
				Series: b.crowdedCommits,
			},
			{
				Name: "crowded_operations_per_commit", Label: "operations of a commit, crowded", Unit: Ratio,
				Series: b.sharing,
			},
			{Name: "idle_commits_per_s", Label: "commits by itself, per second", Unit: Ratio, Series: b.idleCommits},
			{Name: "model_p50_ms", Label: "the model's own time p50, idle", Unit: Milliseconds, Series: b.model50},
			{Name: "fsync_p50_ms", Label: "fsync of 4 KiB p50", Unit: Milliseconds, Series: b.fsync},
			{Name: "raw_insert_per_s", Label: "raw inserts of two rows", Series: b.raw},
		},
	}
}
