package router_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
)

// olderHome is the directory of a database that the build of commit a265abd (schema 15) left behind when it was killed:
//
//   - message 1 of chat a: its model asked for three calls; the first had run, the second was begun, the third was not.
//     Message 3 waits behind it.
//   - message 2 of chat late: it met a rate limit once, which that build counted as an attempt.
//   - message 5 of chat paid: a call of root waits for an approval. Message 4 of chat dead is a dead letter, message 0
//     of chat said is answered.
func olderHome(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "a265abd.sql"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, storage.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what was not written fails the test
	if _, err := db.Exec(string(text)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ran notes which calls of tools ran.
type ran struct {
	mu    sync.Mutex
	calls map[string]int
}

func (r *ran) tool(name string, traits tools.Traits) tools.Tool {
	return apptest.Tool(name, traits, func(_ context.Context, text string) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls == nil {
			r.calls = map[string]int{}
		}
		r.calls[name+" "+text]++
		return "now " + text, nil
	})
}

func (r *ran) times(call string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[call]
}

// resumedOn starts this build on a home of the older one, with other pages than it had.
func resumedOn(t *testing.T, all ...tools.Tool) (*apptest.Kit, *apptest.Model) {
	t.Helper()
	dir := olderHome(t)
	time.Sleep(time.Minute) // behind the times in the database
	model := apptest.Always(apptest.Text("new answer"))
	k := apptest.New(t, apptest.Options{
		Dir: dir, Model: model, Tools: all,
		Notes: &apptest.Notes{IdentityText: "You are another."},
	}).Start()
	pass(10 * time.Minute)
	return k, model
}

// resumed is the request that went on with message 1.
func resumed(t *testing.T, m *apptest.Model) (results []string) {
	t.Helper()
	for _, r := range m.Requests() {
		for i, message := range r.Messages {
			if len(message.Calls) != 3 || len(r.Messages) != i+4 {
				continue
			}
			for _, result := range r.Messages[i+1:] {
				results = append(results, result.Text)
			}
			if !strings.Contains(r.Messages[0].Text, "You are another.") {
				t.Errorf("the prompt is that of the older build: %q", r.Messages[0].Text)
			}
			return results
		}
	}
	t.Fatalf("nobody went on with the three calls: %+v", m.Requests())
	return nil
}

func TestATurnThatAnOlderBuildBeganIsResumedByThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs ran
		k, model := resumedOn(t, runs.tool("web.fetch", tools.SideEffect),
			runs.tool("web.search", tools.ReadOnly|tools.Outside),
			runs.tool("mcp.reload", tools.SideEffect|tools.Privileged))
		for _, id := range []string{"0", "1", "2", "3"} {
			k.WantEnd(id, corebot.EndAnswered)
		}
		results := resumed(t, model)
		if results[0] != "fetched first" || !strings.Contains(results[1], "may or may not have taken effect") ||
			!strings.Contains(results[2], "now third") {
			t.Errorf("the model is told %q", results)
		}
		for call, want := range map[string]int{
			"web.fetch first": 0, "web.fetch second": 0, "web.search third": 1,
			"mcp.reload mallory": 0,
		} {
			if got := runs.times(call); got != want {
				t.Errorf("%s ran %d times, want %d", call, got, want)
			}
		}
		k.SayAs("root", "paid", "ok", "/approve 1")
		k.Say("dead", "again", "/retry 4")
		pass(time.Minute)
		k.WantEnd("5", corebot.EndAnswered)
		k.WantEnd("4", corebot.EndAnswered)
		if n := runs.times("mcp.reload mallory"); n != 1 {
			t.Errorf("the approved call ran %d times", n)
		}
		if log := k.Life("4").AttemptLog; len(log) != 2 || log[0].What != "dead" || log[1].What != "replayed" {
			t.Errorf("the attempts of message 4 are %+v", log)
		}
	})
}

func TestWhatAnOlderBuildBookedIsBookedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs ran
		k, _ := resumedOn(t, runs.tool("web.fetch", tools.SideEffect), runs.tool("web.search", tools.ReadOnly))
		rows, _, err := storage.NewBooks(k.DB).Page(t.Context(), "0000", "9999", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		old := int64(0) // of message 0, the answer of message 1 that asked for tools, and two of message 5
		for _, row := range rows {
			if row.Model == "old-model" {
				old += row.Tokens()
			}
		}
		if old != 4*110 {
			t.Errorf("the older build's answers are booked with %d tokens, want %d", old, 4*110)
		}
	})
}

func TestATurnOfAnOlderBuildGoesOnWithoutTheToolsThatItHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, model := resumedOn(t)
		k.WantEnd("1", corebot.EndAnswered)
		results := resumed(t, model)
		if results[0] != "fetched first" || results[1] == "" || results[2] == "" {
			t.Errorf("the model is told %q", results)
		}
		if offered := model.Last().Tools; len(offered) != 0 {
			t.Errorf("offered are %+v", offered)
		}
	})
}

// killedAtWork puts the database of a build into a directory. The build was killed while a program of a turn was at
// work. killedAtWork waits until the time of the last commit.
func killedAtWork(t *testing.T, commit string) (dir string) {
	t.Helper()
	packed, err := os.Open(filepath.Join("..", "storage", "testdata", commit+".db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close() //nolint:errcheck // only read
	content, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, storage.FileName), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, storage.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	var last int64
	if err := db.QueryRow(`SELECT MAX(published_at) FROM message_life`).Scan(&last); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(time.UnixMilli(last).Add(time.Minute)))
	return dir
}

func TestATurnWithAProgramAtWorkIsFinishedByThisBuildWhicheverBeganIt(t *testing.T) {
	for commit, ids := range map[string][2]string{
		"eaf3614": {"m35", "m36"}, "0b7b7f6": {"m35", "m36"}, "4d992fc": {"m35", "m36"},
	} {
		t.Run(commit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs ran
				model := apptest.Always(apptest.Text("new answer"))
				k := apptest.New(t, apptest.Options{
					Dir: killedAtWork(t, commit), Model: model,
					Tools: []tools.Tool{
						runs.tool("shell.exec", tools.SideEffect), runs.tool("fs.write", tools.SideEffect),
					},
				}).Start()
				pass(10 * time.Minute)
				k.WantEnd(ids[0], corebot.EndAnswered)
				k.WantEnd(ids[1], corebot.EndAnswered)
				if n := len(runs.calls); n != 0 {
					t.Errorf("calls that had begun ran again: %v", runs.calls)
				}
				told := false
				for _, r := range model.Requests() {
					for _, message := range r.Messages {
						told = told || strings.Contains(message.Text, "may or may not have taken effect")
					}
				}
				if !told {
					t.Error("the model is not told that the end of the program is unknown")
				}
				if problems, err := k.DB.Problems(t.Context()); err != nil || len(problems) > 0 {
					t.Errorf("db check: %q %v", problems, err)
				}
			})
		})
	}
}
