package app_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

// answering has a process answer at the control socket of a home until the test ends, as a Corebot with these
// operations.
func answering(t *testing.T, home string, ops control.Operations) {
	t.Helper()
	server, err := control.Listen(app.DataDir(home), ops)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestACommandReadsByItselfWhereTheCorebotOfTheHomeCannotAnswer(t *testing.T) {
	type operations = func(asked *atomic.Int64, release <-chan struct{}) control.Operations
	for name, ops := range map[string]operations{
		"it is older and does not know the operation": func(asked *atomic.Int64, _ <-chan struct{}) control.Operations {
			return control.Operations{}
		},
		"it is older and does not know an argument": func(asked *atomic.Int64, _ <-chan struct{}) control.Operations {
			none := func(context.Context, struct{}) (int, error) { return 0, nil }
			return control.Operations{operate.ListDeadLetters.Name: control.Typed(none)}
		},
		"it hangs": func(asked *atomic.Int64, release <-chan struct{}) control.Operations {
			hangs := func(context.Context, operate.DeadLetterQuery) (int, error) {
				asked.Add(1)
				<-release
				return 0, nil
			}
			return control.Operations{operate.ListDeadLetters.Name: control.Typed(hangs)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, letter := deadHome(t)
			var asked atomic.Int64
			release := make(chan struct{})
			answering(t, home, ops(&asked, release))
			t.Cleanup(func() { close(release) })
			reader := app.NewReader(home, 50*time.Millisecond)
			for range 2 {
				page, err := operate.ListDeadLetters.Call(t.Context(), reader,
					operate.DeadLetterQuery{Part: operate.Part{Limit: 5}})
				if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != letter || page.Next != "" {
					t.Fatalf("it read %+v: %v", page, err)
				}
			}
			if n := asked.Load(); n > 1 {
				t.Errorf("a Corebot that hangs was asked %d times", n)
			}
		})
	}
}

func TestARunningCorebotReadsForACommand(t *testing.T) {
	home, letter := deadHome(t)
	daemon(t, home)
	// A command would refuse to read this database by itself: the home remembers another one.
	memory := app.DataDir(home) + "/database.json"
	own, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(memory, []byte(`{"id":"another","createdAt":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := operate.ListDeadLetters.Call(t.Context(), app.NewReader(home, time.Minute), operate.DeadLetterQuery{})
	if err := os.WriteFile(memory, own, 0o600); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(page.Rows) != 1 || page.Rows[0].ID != letter {
		t.Errorf("it read %+v: %v", page, err)
	}
}

func TestACommandThatReadsCannotChange(t *testing.T) {
	home, letter := deadHome(t)
	_, err := operate.DropDeadLetters.Call(t.Context(), app.NewReader(home, time.Second),
		operate.Drop{IDs: []int64{letter}})
	if !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a reader dropped a dead letter: %v", err)
	}
}
