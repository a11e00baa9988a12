package storage_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

var staleRuns = long.Int("stale.runs", 7, 84, "turns whose lease is stolen while they run")

// pausePoint is a place of a turn at which its worker hangs until its lease is over.
type pausePoint int

const (
	whileTheModelThinks pausePoint = iota
	beforeItsAnswerIsJournaled
	beforeTheIntent
	whileTheToolRuns
	beforeTheOutcome
	whileTheModelThinksAgain
	beforeTheCommit
	pausePoints
)

func (p pausePoint) String() string {
	return [...]string{
		"while the model thinks", "before its answer is journaled", "before the intent", "while the tool runs",
		"before the outcome", "while the model thinks again", "before the commit",
	}[p]
}

const staleLease = 30 * time.Second

// thieves are what the new owner of a lane may do with it.
func thieves() map[string]func(k *apptest.Kit, d corebot.Delivery) error {
	settle := func(o corebot.Outcome) func(*apptest.Kit, corebot.Delivery) error {
		return func(k *apptest.Kit, d corebot.Delivery) error {
			o.At = time.Now().Add(12 * time.Hour)
			return k.Ledger.Commit(context.Background(), d, corebot.Result{
				Outcome: o, Replies: []corebot.Message{{
					ID: d.RunID() + "/new", Direction: corebot.Outbound, Key: d.Message.Key, Kind: corebot.KindReply,
					Parts: corebot.TextPart("the new owner"),
				}},
			})
		}
	}
	return map[string]func(*apptest.Kit, corebot.Delivery) error{
		"answers":     settle(corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}),
		"gives it up": settle(corebot.Outcome{Verb: corebot.Dead, Reason: "permanent", Error: "it broke"}),
		"retries":     settle(corebot.Outcome{Verb: corebot.RetryAt, Error: "not now"}),
		"waits":       settle(corebot.Outcome{Verb: corebot.Wait, Reason: "approval"}),
		"holds it":    func(*apptest.Kit, corebot.Delivery) error { return nil },
		"goes on": func(k *apptest.Kit, d corebot.Delivery) error {
			return k.Ledger.Record(context.Background(), d, corebot.Step{
				Position: len(d.Journal), Kind: corebot.StepTool, State: corebot.StepIntended,
				Call: &corebot.ToolCall{ID: "new", Tool: "web.fetch"},
			})
		},
	}
}

// TestAWorkerWhoseLeaseWasStolenInTheMiddleOfATurnChangesNothing: the real router and agent run a turn with a side
// effect, hang at one of its points until another worker has the lane, and go on. Not a byte of the store may change
// from then on, and no tool may begin.
func TestAWorkerWhoseLeaseWasStolenInTheMiddleOfATurnChangesNothing(t *testing.T) {
	all := thieves()
	names := slices.Sorted(maps.Keys(all))
	for run := range staleRuns() { // seven points and six thieves: each with each in 42 runs
		point, name := pausePoint(run)%pausePoints, names[run%len(names)]
		t.Run(fmt.Sprintf("%d %v, the new owner %s", run+1, point, name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stealLease(t, point, all[name]) })
		})
	}
}

func stealLease(t *testing.T, point pausePoint, thief func(*apptest.Kit, corebot.Delivery) error) {
	w := &staleWorker{point: point, pause: staleLease + rand.N(time.Hour)}
	k := w.start(t)
	k.Say("chat", "1", "do it")
	k.Start()
	time.Sleep(time.Second)
	// waits for the end of the lease
	ds, err := storage.NewQueue(k.DB).Claim(t.Context(), corebot.InboundPool, 1,
		corebot.ClaimOptions{Lease: 24 * time.Hour})
	if err != nil || ds[0].Message.ID != "1" || ds[0].Epoch != 2 || ds[0].Lost != 1 {
		t.Fatalf("the new owner got %+v, %v", ds, err)
	}
	if err := thief(k, ds[0]); err != nil {
		t.Fatal(err)
	}
	before, began := dump(t, k.Dir), w.ran.Load()
	time.Sleep(w.pause - staleLease + time.Second)
	if w.refused.Load() == 0 {
		t.Fatal("the stale worker never came back: the test proves nothing")
	}
	if after := dump(t, k.Dir); after != before {
		t.Errorf("the stale worker changed the store:\n%s\nit was\n%s", after, before)
	}
	if w.ran.Load() != began {
		t.Error("the stale worker began a tool")
	}
}

// staleWorker is a router with one worker that hangs once, and whose heartbeat nobody hears.
type staleWorker struct {
	point   pausePoint
	pause   time.Duration
	paused  atomic.Bool
	refused atomic.Int32 // writes that the store refused for the lease's sake
	ran     atomic.Int32 // begins of the tool
}

func (w *staleWorker) start(t *testing.T) *apptest.Kit {
	k := apptest.New(t, apptest.Options{
		Dir: t.TempDir(),
		Model: apptest.Script(
			w.hangs(whileTheModelThinks, apptest.Asks(apptest.Call("c1", "web.fetch", `{"text":"x"}`))),
			w.hangs(whileTheModelThinksAgain, apptest.Text("done")),
		),
		Tools: []tools.Tool{apptest.Tool("web.fetch", tools.SideEffect, func(context.Context, string) (string, error) {
			w.ran.Add(1)
			w.at(whileTheToolRuns)
			return "fetched", nil
		})},
		Bus:     bus.Options{Lease: staleLease},
		Ledger:  func(l router.Ledger) router.Ledger { return staleLedger{l, w} },
		Journal: func(j agent.Journal) agent.Journal { return staleJournal{j, w} },
	})
	if err := k.NewRouter(deafHeart{k.Bus}, router.Options{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	return k
}

// at hangs the first time that the point is reached.
func (w *staleWorker) at(p pausePoint) {
	if p == w.point && w.paused.CompareAndSwap(false, true) {
		time.Sleep(w.pause)
	}
}

// hangs is a model whose answer comes, whatever became of the turn.
func (w *staleWorker) hangs(p pausePoint, r apptest.Reply) apptest.Reply {
	return func(ctx context.Context, req llm.Request, onText func(string)) (corebot.Answer, error) {
		w.at(p)
		return r(ctx, req, onText)
	}
}

func (w *staleWorker) note(err error) error {
	if errors.Is(err, corebot.ErrLeaseLost) {
		w.refused.Add(1)
	}
	return err
}

// deafHeart keeps no lease and hears of no loss.
type deafHeart struct{ *bus.Bus }

func (deafHeart) Extend(context.Context, []corebot.Lease) ([]corebot.Lease, error) { return nil, nil }

type staleLedger struct {
	router.Ledger
	w *staleWorker
}

func (l staleLedger) CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result,
	next corebot.Claim,
) ([]corebot.Delivery, error) {
	l.w.at(beforeTheCommit)
	claimed, err := l.Ledger.CommitAndClaim(ctx, d, r, next)
	return claimed, l.w.note(err)
}

type staleJournal struct {
	agent.Journal
	w *staleWorker
}

func (j staleJournal) Record(ctx context.Context, d corebot.Delivery, s corebot.Step,
	events ...corebot.AuditEvent,
) error {
	switch {
	case s.Kind == corebot.StepModel:
		j.w.at(beforeItsAnswerIsJournaled)
	case s.State == corebot.StepIntended:
		j.w.at(beforeTheIntent)
	default:
		j.w.at(beforeTheOutcome)
	}
	return j.w.note(j.Journal.Record(ctx, d, s, events...))
}

// dump is everything that is stored, but for the number of commits.
func dump(t *testing.T, dir string) (all string) {
	t.Helper()
	err := behindItsBack(dir, func(db *sql.DB) error {
		tables,
			err := texts(db,
			`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
				AND name NOT IN ('store', 'goose_db_version') ORDER BY name`)
		if err != nil {
			return err
		}
		for _, table := range tables {
			rows, err := texts(db, `SELECT * FROM `+table)
			if err != nil {
				return err
			}
			for _, row := range rows {
				all += table + ": " + row + "\n"
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// texts runs a query and writes each row as text.
func texts(db *sql.DB, query string) (out []string, err error) {
	rows, err := db.Query(query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		text := ""
		for i, v := range row {
			text += fmt.Sprintf("%s=%q ", columns[i], v.String)
		}
		if len(row) == 1 {
			text = row[0].String
		}
		out = append(out, text)
	}
	return out, rows.Err()
}
