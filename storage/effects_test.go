package storage

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// made is an effect as a turn asks for it, and what it leaves beside the call's own row.
type made struct {
	effect corebot.Effect
	audit  string // events, in order
	sent   int    // messages
}

// everyEffect has one example of each type, for a turn of the chat "here" in which ann may do anything. letter is dead.
func everyEffect(letter int64) []made {
	ann := corebot.Principal{Channel: "test", ID: "ann"}
	return []made{
		{corebot.ReplayDeadLetter{ID: letter}, "dead_letter.replay", 0},
		{corebot.SendMessage{To: testKey("there"), Text: "news"}, "", 1},
		{
			corebot.AskAgent{Agent: "helper", Text: "news", Asks: corebot.Caller{Key: testKey("here"), Principal: ann}},
			"", 1,
		},
		{corebot.RegisterChat{Chat: testKey("there")}, "chat.register", 0},
		{corebot.ChooseSkill{Chat: testKey("there"), Skill: "tea", On: true}, "chat.skill", 0},
		{corebot.GrantRole{Principal: ann, Role: corebot.RoleAdmin}, "role.grant", 0},
		{
			corebot.BecomeFirstAdmin{Bootstrap: corebot.HashKey(bootstrapKey), Chat: testKey("there")},
			"role.grant chat.register", 0,
		},
		{corebot.ScheduleTask{Task: testTask(ann)}, "task.create", 0},
		{corebot.ChangeTask{ID: 1, Version: 1, Action: corebot.TaskPause}, "task.create task.pause", 0},
		{corebot.ForgetFacts{Chat: testKey("here"), IDs: []int64{1}, Own: ann, Everyone: true}, "facts.forget", 0},
	}
}

// testTask is due in an hour.
func testTask(by corebot.Principal) corebot.Task {
	return corebot.Task{
		Key: testKey("there"), Schedule: corebot.Schedule{Kind: corebot.TaskInterval, Spec: "1h"}, Prompt: "look",
		Context: corebot.TaskInChat, Creator: by, Anchor: time.Now(), NextRun: time.Now().Add(time.Hour),
	}
}

// effectTypes are the names of the types that seal themselves as effects in package corebot.
func effectTypes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	must(t, err)
	var names []string
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "effect" &&
				!strings.HasSuffix(path, "_test.go") {
				// a value: storage knows no pointers to effects
				names = append(names, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	return names
}

func TestEveryEffectHasAHandler(t *testing.T) {
	shown := map[string]bool{}
	for i, example := range everyEffect(0) {
		name := reflect.TypeOf(example.effect).Name()
		shown[name] = true
		t.Run(name, func(t *testing.T) {
			db := openBootstrap(t)
			c := everyEffect(deadLetter(t, db, "a", "1", "poison"))[i]
			publishTest(t, db, "here", "m")
			d := claimOf(t, db, "here")
			step, event := applied()
			event.Principal = d.Message.Sender
			if _, changes := c.effect.(corebot.ChangeTask); changes {
				_, err := NewTasks(db).Create(t.Context(), testTask(event.Principal), corebot.TaskLimits{})
				must(t, err)
			}
			if _, forgets := c.effect.(corebot.ForgetFacts); forgets {
				must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
					Key: testKey("here"), Scope: corebot.FactsOfChat, Subject: "tea", Relation: "is", Object: "hot",
				}))
			}
			must(t, NewLedger(db).Apply(t.Context(), d, step, c.effect, event))
			var events []string
			for _, e := range notes(t, db) {
				events = append(events, e.Event)
			}
			if got := strings.Join(events, " "); got != strings.TrimSpace(c.audit+" tool.result") {
				t.Errorf("the audit has %s", got)
			}
			if n := len(outboundOf(t, db, d.Life)); n != c.sent {
				t.Errorf("%d messages are sent", n)
			}
			if steps := lifeOf(t, db, d.Life).Steps; len(steps) != 1 || steps[0].State != corebot.StepDone {
				t.Errorf("the journal is %+v", steps)
			}
			healthy(t, db)
		})
	}
	if got, want := slices.Sorted(maps.Keys(shown)), slices.Sorted(slices.Values(effectTypes(t))); !slices.Equal(got,
		want) {
		t.Errorf("the effects are %v; this test makes %v", want, got)
	}
}

// unhandled is an effect that package corebot has and no aggregate handles yet.
type unhandled struct{ corebot.Effect }

func TestAnEffectWithoutAHandlerIsMadeByNoCall(t *testing.T) {
	db := openTest(t, t.TempDir())
	d := atWork(t, db)
	step, event := applied()
	for name, err := range map[string]error{
		"of a turn":   NewLedger(db).Apply(t.Context(), d, step, unhandled{}, event),
		"of a client": NewClientCalls(db).Apply(t.Context(), clientCall("k", `{}`), unhandled{}, clientEvent()),
		"a pointer":   NewLedger(db).Apply(t.Context(), d, step, &corebot.RegisterChat{Chat: testKey("there")}, event),
	} {
		if refused := (*corebot.Refused)(nil); !errors.Is(err, errNoHandler) || errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if steps := lifeOf(t, db, d.Life).Steps; len(steps) != 0 || len(notes(t, db)) != 0 ||
		count(t, db.path, "client_calls") != 0 {
		t.Errorf("it left the steps %+v and the rows %+v", steps, notes(t, db))
	}
}
