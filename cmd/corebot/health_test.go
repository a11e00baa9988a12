package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// answeringHealth has this process answer for the Corebot of a new home until the test ends.
func answeringHealth(t *testing.T, health func(context.Context) operate.Health) (home string) {
	t.Helper()
	home = t.TempDir()
	db, err := storage.Open(t.Context(), app.DataDir(home), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := control.Listen(app.DataDir(home), control.Operations{
		operate.ReadHealth.Name: control.Typed(func(ctx context.Context, _ struct{}) (operate.Health, error) {
			return health(ctx), nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = server.Close() // it has ended
	})
	return home
}

func TestHealthFailsWhereANewStartHelpsAndWhenAskedAlsoWhereMessagesWouldBeRefused(t *testing.T) {
	full := operate.Health{NotReady: []string{"the disk is full"}, Degraded: []string{"model: no model answers"}}
	stuck := operate.Health{Stuck: []string{"router"}, NotReady: []string{"the router has stood still for 40s"}}
	for name, c := range map[string]struct {
		health operate.Health
		args   string
		says   string
		fails  string // empty: the exit code is 0
	}{
		"all is well":              {operate.Health{}, "", "ready\n", ""},
		"ready":                    {operate.Health{}, "--ready", "ready\n", ""},
		"a full disk":              {full, "", "not ready: the disk is full\ndegraded: model: no model answers\n", ""},
		"a full disk is not ready": {full, "--ready", "not ready: the disk", "cannot be accepted or answered"},
		"a part stands still":      {stuck, "", "not ready: the router", "stand still: router"},
		"as JSON":                  {stuck, "--json", `"stuck":["router"]`, "stand still: router"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := answeringHealth(t, func(context.Context) operate.Health { return c.health })
			out, err := healthOf(t, home, c.args)
			if !strings.Contains(out, c.says) || (err == nil) != (c.fails == "") ||
				err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("it says %q: %v", out, err)
			}
		})
	}
}

func TestACorebotThatDoesNotAnswerInTimeIsNotHealthy(t *testing.T) {
	release := make(chan struct{})
	home := answeringHealth(t, func(context.Context) operate.Health {
		<-release
		return operate.Health{}
	})
	t.Cleanup(func() { close(release) })
	if out, err := healthOf(t, home, "--timeout=50ms"); err == nil || out != "" ||
		!strings.Contains(err.Error(), "no answer of Corebot within 50ms") {
		t.Errorf("it says %q: %v", out, err)
	}
	if _, err := healthOf(t, t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "no Corebot runs") {
		t.Errorf("without a Corebot: %v", err)
	}
}

func healthOf(t *testing.T, home, args string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRootOn(&out, &out)
	root.SetArgs(append([]string{"health", "--home", home}, strings.Fields(args)...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}
