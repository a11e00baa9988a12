package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

const bootstrapKey = "0123456789abcdef"

// openBootstrap is a database whose first admin can be made by a key.
func openBootstrap(t *testing.T) *DB {
	t.Helper()
	db, err := Open(t.Context(), seeded(t), Options{Bootstrap: keyed(t)})
	must(t, err)
	runTest(t, db)
	return db
}

func keyed(t *testing.T) policy.Bootstrap {
	t.Helper()
	b, err := policy.NewBootstrap(bootstrapKey, 5, 15*time.Minute)
	must(t, err)
	return b
}

// attempts are claims of many chats, each of another sender, in whose turns keys are tried.
func attempts(t *testing.T, db *DB, n int) []corebot.Delivery {
	t.Helper()
	q := NewQueue(db)
	var ms []corebot.Message
	for i := range n {
		m := testMessage(fmt.Sprint("chat", i), "m")
		m.Sender.ID = fmt.Sprint("sender", i)
		ms = append(ms, m)
	}
	_, err := q.Publish(t.Context(), ms, corebot.Limits{})
	must(t, err)
	var all []corebot.Delivery
	for len(all) < n {
		ds, err := q.Claim(t.Context(), corebot.InboundPool, n, corebot.ClaimOptions{Lease: time.Hour})
		must(t, err)
		all = append(all, ds...)
	}
	return all
}

// try uses a key in a turn, as chat.register does.
func try(t *testing.T, db *DB, d corebot.Delivery, key string) error {
	t.Helper()
	m := d.Message
	step := corebot.Step{
		Kind: corebot.StepTool, State: corebot.StepDone, Call: &corebot.ToolCall{
			ID: "c", Tool: "chat.register",
			Args: []byte(`{}`),
		},
		Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "registered"},
	}
	event := corebot.AuditEvent{
		Event: "tool.result", Tool: "chat.register", Key: m.Key, Principal: m.Sender,
		Outcome: corebot.OutcomeSuccess, Rule: "open", Args: "{}", StepID: d.StepID(0),
	}
	return NewLedger(db).Apply(t.Context(), d, step, corebot.BecomeFirstAdmin{
		Bootstrap: corebot.HashKey(key),
		Chat:      m.Key,
	}, event)
}

// deniedBy is the rule of a denial, or empty.
func deniedBy(err error) string {
	if denied := (*corebot.Denied)(nil); errors.As(err, &denied) {
		return denied.Rule
	}
	return ""
}

// atOnce tries a key in every turn at the same time and counts what came of it: the rules that denied, and "" for
// success.
func atOnce(t *testing.T, db *DB, ds []corebot.Delivery, key string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ends := map[string]int{}
	for _, d := range ds {
		wg.Go(func() {
			err := try(t, db, d, key)
			rule := deniedBy(err)
			mu.Lock()
			defer mu.Unlock()
			if ends[rule]++; rule == "" && err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return ends
}

func TestTheRightKeyMakesItsSenderAdminEverywhereInOneCommitWithTheStep(t *testing.T) {
	db := openBootstrap(t)
	d := attempts(t, db, 1)[0]
	must(t, try(t, db, d, bootstrapKey))
	for _, k := range []corebot.Key{d.Message.Key, testKey("another"), {}} {
		if role, err := NewGrants(db).RoleOf(t.Context(), d.Message.Sender, k); err != nil ||
			role != corebot.RoleAdmin {
			t.Errorf("in %s he is %s, %v", k, role, err)
		}
	}
	if chat, err := NewChats(db).Chat(t.Context(), d.Message.Key); err != nil || !chat.Registered {
		t.Errorf("the chat is %+v, %v", chat, err)
	}
	var rows []string
	for _, e := range notes(t, db) {
		rows = append(rows, e.Event+" "+e.Rule+" "+string(e.Outcome)+" "+e.Principal.ID)
	}
	if got := strings.Join(rows, "\n"); got != "role.grant bootstrap success sender0\nchat.register bootstrap "+
		"success sender0\ntool.result bootstrap success sender0" {
		t.Errorf("the audit is\n%s", got)
	}
}

func TestAWrongKeyIsCountedAndItsCallEndsDeniedInOneCommit(t *testing.T) {
	db := openBootstrap(t)
	d := attempts(t, db, 1)[0]
	if err := try(t, db, d, "wrong"); deniedBy(err) != "bootstrap-key" {
		t.Fatalf("the error is %v", err)
	}
	steps := lifeOf(t, db, d.Life).Steps
	if len(steps) != 1 || steps[0].Result.Outcome != corebot.OutcomeDenied ||
		!strings.HasPrefix(steps[0].Result.Content, "denied: ") {
		t.Errorf("the journal is %+v", steps)
	}
	if got := notes(t, db); len(got) != 1 || got[0].Outcome != corebot.OutcomeDenied || got[0].Rule != "bootstrap-key" {
		t.Errorf("the audit is %+v", got)
	}
	if grants, _, err := NewGrants(db).Page(t.Context(), "", 10); err != nil || len(grants) != 0 {
		t.Errorf("grants: %+v, %v", grants, err)
	}
	if chat, err := NewChats(db).Chat(t.Context(), d.Message.Key); err != nil || chat.Registered {
		t.Errorf("the chat is %+v, %v", chat, err)
	}
	if got := sideQuery(t, db.path, "SELECT failures, locked_at, used FROM bootstrap")[0]; got != "1|0|0" {
		t.Errorf("remembered: %s", got)
	}
}

func TestAStaleWorkersKeyIsNeitherTriedNorCounted(t *testing.T) {
	db := openBootstrap(t)
	d := attempts(t, db, 1)[0]
	d.Epoch--
	for _, key := range []string{"wrong", bootstrapKey} {
		if err := try(t, db, d, key); !errors.Is(err, corebot.ErrLeaseLost) {
			t.Errorf("the error is %v", err)
		}
	}
	if got := sideQuery(t, db.path, "SELECT failures, used FROM bootstrap")[0]; got != "0|0" ||
		count(t, db.path, "grants") != 0 {
		t.Errorf("remembered: %s", got)
	}
}

func TestOfAThousandWrongKeysAtOnceFiveCount(t *testing.T) {
	db := openBootstrap(t)
	ds := attempts(t, db, 1000)
	if got := atOnce(t, db, ds, "wrong"); got["bootstrap-key"] != 5 || got["bootstrap-locked"] != 995 {
		t.Errorf("they ended %v", got)
	}
	if got := count(t, db.path, "audit_events"); got != 1000 {
		t.Errorf("%d rows in the audit", got)
	}
	if err := try(t, db, ds[0], bootstrapKey); deniedBy(err) != "bootstrap-locked" {
		t.Errorf("the right key during the lockout: %v", err)
	}
}

func TestOfTwoRightKeysAtOnceOneMakesAnAdmin(t *testing.T) {
	const rounds = 200
	db := openBootstrap(t)
	ds := attempts(t, db, 2*rounds)
	for n := range rounds {
		got := atOnce(t, db, ds[2*n:2*n+2], bootstrapKey)
		grants, _, err := NewGrants(db).Page(t.Context(), "", 10)
		if err != nil || got[""] != 1 || got["bootstrap-closed"] != 1 || len(grants) != 1 ||
			grants[0].Chat != (corebot.Key{}) || grants[0].By != "bootstrap" {
			t.Fatalf("round %d: they ended %v; the grants are %+v, %v", n, got, grants, err)
		}
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			for _, q := range []string{"DELETE FROM grants", "UPDATE bootstrap SET used = 0"} {
				if _, err := t.exec(&query{q}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func TestAttemptsAndALockoutSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := seeded(t)
		tries := 0
		// inNewProcess tries a key in a process of its own.
		inNewProcess := func(key string) string {
			db, err := Open(t.Context(), dir, Options{Bootstrap: keyed(t)})
			must(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- db.Run(ctx) }()
			tries++
			publishTest(t, db, fmt.Sprint("chat", tries), "m")
			rule := deniedBy(try(t, db, claimTest(t, db), key))
			stop()
			must(t, errors.Join(<-ended, db.Close()))
			return rule
		}
		for n := range 5 {
			if rule := inNewProcess("wrong"); rule != "bootstrap-key" {
				t.Fatalf("attempt %d: %q", n, rule)
			}
		}
		for range 3 { // none of these makes it longer
			time.Sleep(4 * time.Minute)
			if rule := inNewProcess(bootstrapKey); rule != "bootstrap-locked" {
				t.Fatalf("during the lockout: %q", rule)
			}
		}
		time.Sleep(3 * time.Minute)
		if rule := inNewProcess(bootstrapKey); rule != "" {
			t.Fatalf("after it: %q", rule)
		}
		if rule := inNewProcess(bootstrapKey); rule != "bootstrap-closed" {
			t.Fatalf("once more: %q", rule)
		}
	})
}

func TestAnAdminThatTheOperatorMadeClosesTheWayByKey(t *testing.T) {
	for _, chat := range []corebot.Key{{}, testKey("a")} {
		db := openBootstrap(t)
		must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{
			Principal: corebot.Principal{Channel: "cli", ID: "1"},
			Role:      corebot.RoleAdmin, Chat: chat,
		}))
		if err := try(t, db, attempts(t, db, 1)[0], bootstrapKey); deniedBy(err) != "bootstrap-closed" {
			t.Errorf("with an admin in %q: %v", chat, err)
		}
	}
}

func TestWithoutAKeyNoneIsRight(t *testing.T) {
	db := openTest(t, t.TempDir())
	d := attempts(t, db, 1)[0]
	for _, key := range []string{"", bootstrapKey} {
		if err := try(t, db, d, key); deniedBy(err) != "bootstrap-off" {
			t.Errorf("%q: %v", key, err)
		}
	}
}
