package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// shelf has dead letters, and remembers what it was asked.
type shelf struct {
	asked operate.DeadLetterQuery
	has   []operate.DeadLetter
	err   error
}

func (s *shelf) ListDeadLetters(_ context.Context,
	q operate.DeadLetterQuery,
) (operate.Page[operate.DeadLetter], error) {
	s.asked = q
	return operate.Page[operate.DeadLetter]{Rows: s.has}, s.err
}

// applied is a journal that keeps the effects of a call.
type applied struct {
	step
	effects []corebot.Effect
}

func (a *applied) Apply(_ context.Context, e corebot.Effect, _ corebot.ToolResult, _ corebot.AuditEvent) error {
	a.effects = append(a.effects, e)
	return nil
}

// deadLetterBox are the tools in front of a policy with grants, for one role.
func deadLetterBox(t *testing.T, s *shelf, role corebot.Role, grants ...corebot.ToolGrant) *tools.Box {
	t.Helper()
	registry, err := tools.NewRegistry(builtin.DeadLetterList(s), builtin.DeadLetterReplay())
	must(t, err)
	p, err := policy.New(policy.Options{Grants: grants})
	must(t, err)
	box, err := tools.NewBox(registry, p, roleOf(role), tools.Options{})
	must(t, err)
	return box
}

func use(t *testing.T, b *tools.Box, j tools.Step, tool, args string) corebot.ToolResult {
	t.Helper()
	r, err := b.Call(t.Context(), corebot.Caller{Key: here}, corebot.ToolCall{Tool: tool, Args: json.RawMessage(args)},
		j)
	must(t, err)
	r.Content = outside.Unmarked(r.Content)
	return r
}

func TestDeadLettersAreForAdminsUnlessTheyAreGranted(t *testing.T) {
	for _, c := range []struct {
		role    corebot.Role
		grants  []corebot.ToolGrant
		offered int
		outcome corebot.AuditOutcome
	}{
		{corebot.RoleAdmin, nil, 2, corebot.OutcomeSuccess},
		{corebot.RoleNormal, nil, 0, corebot.OutcomeDenied},
		{
			corebot.RoleNormal,
			[]corebot.ToolGrant{{Tool: "bus.dead_letter.*", Role: corebot.RoleNormal}},
			2,
			corebot.OutcomeSuccess,
		},
	} {
		b := deadLetterBox(t, &shelf{}, c.role, c.grants...)
		offered, err := b.Offer(t.Context(), corebot.Caller{Key: here})
		must(t, err)
		j := &applied{}
		list, replay := use(t, b, j, "bus.dead_letter.list", `{}`), use(t, b, j, "bus.dead_letter.replay", `{"id":7}`)
		if len(offered) != c.offered || list.Outcome != c.outcome || replay.Outcome != c.outcome {
			t.Errorf("%s with %q: offered %d, list %s, replay %s", c.role, c.grants, len(offered), list.Outcome,
				replay.Outcome)
		}
		if made := len(j.effects) == 1 && j.effects[0] == (corebot.ReplayDeadLetter{
			ID:    7,
			Agent: here.Agent,
		}); made != (c.outcome == corebot.OutcomeSuccess) {
			t.Errorf("%s: effects %+v", c.role, j.effects)
		}
	}
}

func TestDeadLettersAreListedOneALine(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &shelf{has: []operate.DeadLetter{
		{
			ID: 7, Direction: "inbound", Channel: here.Channel, ChatID: here.Chat, MessageID: "m", Reason: "attempts",
			Attempts: 8, LastError: "<no>", CreatedAt: at, DeadAt: at,
		},
		{
			ID: 6, Direction: "outbound", Channel: there.Channel, ChatID: there.Chat, MessageID: "r",
			Reason:    "permanent",
			CreatedAt: at, DeadAt: at,
		},
	}}
	r := use(t, deadLetterBox(t, s, corebot.RoleAdmin), step{}, "bus.dead_letter.list",
		`{"direction":"outbound","limit":500}`)
	want := `{"id":7,"direction":"inbound","channel":"webhook","chatId":"here","messageId":"m","reason":"attempts",` +
		`"attempts":8,"lastError":"<no>",` +
		`"createdAt":"2026-01-02T03:04:05Z","deadAt":"2026-01-02T03:04:05Z"}`
	if lines := strings.Split(strings.TrimSpace(r.Content), "\n"); len(lines) != 2 || lines[0] != want {
		t.Errorf("the model reads %s", r.Content)
	}
	if s.asked != (operate.DeadLetterQuery{Filter: corebot.DeadLetterFilter{
		Direction: corebot.Outbound,
		Agent:     here.Agent,
	}, Part: operate.Part{Limit: 100}}) {
		t.Errorf("asked for %+v", s.asked)
	}
	s.has = nil
	if r := use(t, deadLetterBox(t, s, corebot.RoleAdmin), step{}, "bus.dead_letter.list", `{}`); s.asked.Limit != 20 ||
		!strings.Contains(r.Content, "no such dead letters") {
		t.Errorf("of none: %q, asked %+v", r.Content, s.asked)
	}
	s.err = errors.New("the disk is gone")
	if r := use(t, deadLetterBox(t, s, corebot.RoleAdmin), step{}, "bus.dead_letter.list",
		`{}`); r.Outcome != corebot.OutcomeError {
		t.Errorf("of a store that fails: %+v", r)
	}
}

func TestArgumentsThatMeanNoDeadLetterAreRefused(t *testing.T) {
	b := deadLetterBox(t, &shelf{}, corebot.RoleAdmin)
	for tool, bad := range map[string][]string{
		"bus.dead_letter.list": {
			`{"direction":"control"}`, `{"direction":"up"}`, `{"limit":-1}`, `{"limit":"9"}`,
			`{"chat":"x"}`,
		},
		"bus.dead_letter.replay": {`{}`, `{"id":0}`, `{"id":-1}`, `{"id":"7"}`, `{"id":7,"fresh":true}`},
	} {
		for _, args := range bad {
			j := &applied{}
			if r := use(t, b, j, tool, args); r.Outcome == corebot.OutcomeSuccess || len(j.effects) != 0 {
				t.Errorf("%s %s: %+v", tool, args, r)
			}
		}
	}
}
