package eventfiles_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/scheduler/eventfiles"
	"github.com/corebot/corebot/storage"
)

var (
	owner = corebot.Principal{Channel: "cli", Account: "local", ID: "1000"}
	ops   = corebot.Key{Agent: "main", Channel: "webhook", Chat: "ops"}
)

// rig is a directory of event files on a real database.
type rig struct {
	*storage.Tasks
	t       *testing.T
	dir     string
	options eventfiles.Options
	files   *eventfiles.Directory
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db, err := storage.Open(t.Context(), t.TempDir(), storage.Options{})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		must(t, db.Close())
	})
	r := &rig{Tasks: storage.NewTasks(db), t: t, dir: filepath.Join(t.TempDir(), "events")}
	must(t, os.MkdirAll(filepath.Join(r.dir, "rejected"), 0o700))
	r.options = eventfiles.Options{
		Path: r.dir, Owner: owner, Zone: "Europe/Berlin",
		Chat: func(_ context.Context, name string) (corebot.Key, error) {
			return corebot.Named(name, []corebot.Key{ops})
		},
	}
	r.begin(r.Tasks)
	return r
}

// begin is the start of a process that looks at the directory.
func (r *rig) begin(store eventfiles.Store) {
	r.t.Helper()
	var err error
	r.files, err = eventfiles.New(store, r.options)
	must(r.t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) write(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	must(r.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// tasks are all tasks, the oldest first.
func (r *rig) tasks() []corebot.Task {
	r.t.Helper()
	all, _, err := r.Page(r.t.Context(), corebot.TaskFilter{}, "", 1000)
	must(r.t, err)
	return all
}

func (r *rig) one() corebot.Task {
	r.t.Helper()
	all := r.tasks()
	if len(all) != 1 {
		r.t.Fatalf("there are %d tasks: %v", len(all), all)
	}
	return all[0]
}

// left are the names in a directory.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.Name() != "rejected" {
			names = append(names, e.Name())
		}
	}
	return names
}

// requireTaken compares the metric of the files whose tasks this process has made.
func (r *rig) requireTaken(want int) {
	r.t.Helper()
	got, err := r.options.Metrics.(*prometheus.Registry).Gather()
	must(r.t, err)
	for _, m := range got[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == "taken" && int(m.GetCounter().GetValue()) != want {
			r.t.Errorf("%v files are counted as taken, want %d", m.GetCounter().GetValue(), want)
		}
	}
}

func (r *rig) requireLeft(want ...string) {
	r.t.Helper()
	if got := left(r.t, r.dir); !slices.Equal(got, want) {
		r.t.Errorf("the files that are left are %v, want %v", got, want)
	}
}

func TestWhatAnEventOnTheOwnersChannelSaysOnlyTheOwnerReads(t *testing.T) {
	r := newRig(t)
	r.options.Alone = corebot.OwnersChannel(ops.Channel)
	r.begin(r.Tasks)
	r.write("alarm.json", `{"type":"immediate","chat":"webhook:ops","text":"Say why."}`)
	r.files.Look(t.Context())
	if task := r.one(); task.Overheard {
		t.Errorf("the task is %+v", task)
	}
}

func TestAnImmediateEventIsATaskThatIsDueNow(t *testing.T) {
	r := newRig(t)
	r.write("alarm.json", `{"type":"immediate","chat":"webhook:ops","text":"Say why.","data":"disk full"}`)
	r.files.Look(t.Context())
	r.requireLeft()
	task := r.one()
	if age := time.Since(task.NextRun); age < 0 || age > time.Minute {
		t.Errorf("it is due at %s", task.NextRun)
	}
	if task.Key != ops || task.Prompt != "Say why." || task.Creator != owner || task.Name != "alarm" ||
		!task.Overheard {
		t.Errorf("the task is %+v", task)
	}
	m := task.Message(task.NextRun)
	if data, _ := m.Metadata.Text("data"); data != "disk full" || m.Errand.Taint == "" {
		t.Errorf("the message is %+v, tainted by %q", m, m.Errand.Taint)
	}
}

func TestTheTextOfAnEventIsTheOperatorsWord(t *testing.T) {
	r := newRig(t)
	r.write("clean.json", `{"type":"immediate","chat":"webhook:ops","text":"Say why."}`)
	r.files.Look(t.Context())
	if m := r.one().Message(time.Now()); m.Errand.Taint != "" || !m.Metadata.Empty() {
		t.Errorf("the message is %+v, tainted by %q", m, m.Errand.Taint)
	}
}

// TestAOneShotEventIsDueAtItsTimeThoughItIsOver: Corebot did not run between the writing of the file and its time.
func TestAOneShotEventIsDueAtItsTimeThoughItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		at := time.Now().Add(-time.Hour).Truncate(time.Second)
		file := r.write("tea.json", fmt.Sprintf(`{"type":"one-shot","chat":"webhook:ops","text":"tea","at":%q}`,
			at.Format(time.RFC3339)))
		must(t, os.Chtimes(file, at, at.Add(-time.Hour)))
		r.files.Look(t.Context())
		if task := r.one(); !task.NextRun.Equal(at) {
			t.Errorf("it is due at %s, want %s", task.NextRun, at)
		}
		r.requireLeft()
	})
}

func TestAPeriodicFileIsItsTask(t *testing.T) {
	r := newRig(t)
	const text = `{"type":"periodic","chat":"webhook:ops","text":"report","schedule":"0 9 * * 1-5","timezone":%q}`
	r.write("report.json", fmt.Sprintf(text, "America/New_York"))
	r.files.Look(t.Context())
	r.files.Look(t.Context())
	task := r.one()
	if task.Schedule != (corebot.Schedule{Kind: corebot.TaskCron, Spec: "0 9 * * 1-5", TimeZone: "America/New_York"}) {
		t.Errorf("its schedule is %+v", task.Schedule)
	}
	r.requireLeft("report.json")

	r.options.Metrics = prometheus.NewRegistry()
	r.begin(r.Tasks) // another process
	r.files.Look(t.Context())
	r.requireTaken(0)
	if again := r.one(); again.ID != task.ID {
		t.Errorf("after a restart the task is %d, before it was %d", again.ID, task.ID)
	}
	if _, err := (scheduler.Planner{}).Change(t.Context(), task, corebot.TaskRemove, time.Now()); !errors.Is(err,
		corebot.ErrInvalid) || !strings.Contains(corebot.HintOf(err), "delete the file") {
		t.Errorf("the task can be removed while its file is there: %v", err)
	}

	r.write("report.json", fmt.Sprintf(text, "Asia/Tokyo"))
	r.files.Look(t.Context())
	if changed := r.one(); changed.ID == task.ID || changed.Schedule.TimeZone != "Asia/Tokyo" {
		t.Errorf("after a change of the file the task is %+v", changed)
	}
	r.requireTaken(1)

	must(t, os.Remove(filepath.Join(r.dir, "report.json")))
	r.files.Look(t.Context())
	if all := r.tasks(); len(all) != 0 {
		t.Errorf("the file has gone, and these tasks are there: %v", all)
	}
}

// TestADirectoryThatCannotBeReadRemovesNoTask: files that nobody can see are not gone.
func TestADirectoryThatCannotBeReadRemovesNoTask(t *testing.T) {
	r := newRig(t)
	r.write("report.json", `{"type":"periodic","chat":"webhook:ops","text":"report","schedule":"@daily"}`)
	r.files.Look(t.Context())
	must(t, os.Rename(r.dir, r.dir+".away"))
	r.files.Look(t.Context())
	r.one()
}

func TestFilesAreTakenInTheOrderOfTheirWriting(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	const n = 50
	for i := range n {
		name := fmt.Sprintf("%02d.json", n-i) // the names have the opposite order
		file := r.write(name, fmt.Sprintf(`{"type":"immediate","chat":"webhook:ops","text":"%d"}`, i))
		at := now.Add(time.Duration(i-n) * time.Second)
		must(t, os.Chtimes(file, at, at))
	}
	r.files.Look(t.Context())
	due, err := r.Due(t.Context(), time.Now(), corebot.Task{}, 2*n)
	must(t, err)
	for i, task := range due {
		if task.Prompt != fmt.Sprint(i) {
			t.Fatalf("the task at place %d is of the event %s", i, task.Prompt)
		}
	}
	if len(due) != n {
		t.Errorf("%d tasks are due, want %d", len(due), n)
	}
}

// crashing stores a task and fails then, as a process that is killed before the file is gone.
type crashing struct{ *storage.Tasks }

func (c crashing) CreateOnce(ctx context.Context, t corebot.Task, l corebot.TaskLimits) (corebot.Task, bool, error) {
	_, err := c.Create(ctx, t, l)
	return corebot.Task{}, false, errors.Join(errors.New("killed"), err)
}

func TestAFileThatACrashHasLeftMakesNoSecondTask(t *testing.T) {
	r := newRig(t)
	r.begin(crashing{r.Tasks})
	const text = `{"type":"immediate","chat":"webhook:ops","text":"once"}`
	r.write("a.json", text)
	r.files.Look(t.Context())
	r.requireLeft("a.json")
	r.options.Metrics = prometheus.NewRegistry()
	r.begin(r.Tasks)
	r.files.Look(t.Context())
	r.requireLeft()
	r.one()
	r.requireTaken(0)       // the process before counted it, or was killed
	r.write("a.json", text) // the same words in a new file are another event
	r.files.Look(t.Context())
	if n := len(r.tasks()); n != 2 {
		t.Errorf("there are %d tasks, want 2", n)
	}
}

func TestAHalfWrittenFileWaitsForItsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		const text = `{"type":"immediate","chat":"webhook:ops","text":"whole"}`
		r.write("late.json", text[:30])
		r.write("never.json", text[:20])
		r.write("empty.json", "")
		r.files.Look(t.Context())
		r.requireLeft("empty.json", "late.json", "never.json")
		time.Sleep(time.Second)
		r.write("late.json", text)
		r.files.Look(t.Context())
		r.requireLeft("empty.json", "never.json")
		time.Sleep(time.Second)
		r.files.Look(t.Context())
		r.requireLeft()
		if task := r.one(); task.Prompt != "whole" {
			t.Errorf("the task is %+v", task)
		}
		want := []string{"empty.json", "empty.json.reason.txt", "never.json", "never.json.reason.txt"}
		if got := left(t, filepath.Join(r.dir, "rejected")); !slices.Equal(got, want) {
			t.Errorf("rejected are %v", got)
		}
	})
}

func TestABadFileIsSetAsideWithItsReason(t *testing.T) {
	const begin = `{"type":"immediate","chat":"webhook:ops",`
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":           {`hello`, "must be one JSON object of texts"},
		"a list":            {`[]`, "must be one JSON object of texts"},
		"nested":            {begin + `"text":{"a":{}}}`, "nested deeper"},
		"twice":             {begin + `"text":"a","text":"b"}`, "text"},
		"a number":          {begin + `"text":7}`, "text must be a text"},
		"null":              {begin + `"text":null}`, "text must be a text"},
		"no text":           {begin + `"text":" "}`, "hint: say in text"},
		"unknown field":     {begin + `"text":"a","when":"now"}`, "the fields are at, chat,"},
		"field in capitals": {begin + `"text":"a","At":"now"}`, `there is no field "At"`},
		"unknown type":      {`{"type":"later","chat":"x","text":"a"}`, "hint: write immediate, one-shot or periodic"},
		"unknown chat":      {`{"type":"immediate","chat":"nobody","text":"a"}`, "corebot chats list"},
		"unknown zone": {
			`{"type":"periodic","chat":"webhook:ops","text":"a","schedule":"@daily","timezone":"Mars"}`,
			"IANA",
		},
		"never": {
			`{"type":"periodic","chat":"webhook:ops","text":"a","schedule":"0 0 30 2 *"}`,
			"never comes",
		},
		"over": {
			`{"type":"one-shot","chat":"webhook:ops","text":"a","at":"1999-01-01T00:00"}`,
			"give a time to come",
		},
		"no time":         {`{"type":"one-shot","chat":"webhook:ops","text":"a"}`, "has no at"},
		"a time too many": {begin + `"text":"a","at":"2999-01-01T00:00"}`, "only a one-shot event has at"},
		"a context":       {begin + `"text":"a","context":"alone"}`, "want group or isolated"},
		"a long text": {
			begin + `"text":"` + strings.Repeat("a", corebot.MaxTaskPrompt+1) + `"}`,
			"the limit is 16384",
		},
		"long data": {
			begin + `"text":"a","data":"` + strings.Repeat("a", corebot.MaxTaskData+1) + `"}`,
			"the limit is 16384",
		},
		"a file of 1 MiB":    {begin + `"text":"` + strings.Repeat(" ", 1<<20) + `"}`, "the limit is 65536"},
		"half a character":   {begin + `"text":"\ud800"}`, "half"},
		"no UTF-8":           {begin + "\"text\":\"\xff\"}", "UTF-8"},
		"something follows":  {begin + `"text":"a"} x`, "follows"},
		"a name of controls": {begin + `"text":"a","name":"a\u0000b"}`, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("bad.json", c.text)
			r.files.Look(t.Context())
			r.requireLeft()
			why, err := os.ReadFile(filepath.Join(r.dir, "rejected", "bad.json.reason.txt"))
			must(t, err)
			if !strings.Contains(string(why), c.want) {
				t.Errorf("the reason is %q, want %q", why, c.want)
			}
			if kept, err := os.ReadFile(filepath.Join(r.dir, "rejected", "bad.json")); string(kept) != c.text {
				t.Errorf("the file has changed: %v", err)
			}
			if all := r.tasks(); len(all) != 0 {
				t.Errorf("it made a task: %v", all)
			}
		})
	}
}

func TestWhatOthersCanChangeAndWhatIsNoFileIsSetAside(t *testing.T) {
	r := newRig(t)
	good := r.write("secret.txt", `{"type":"immediate","chat":"webhook:ops","text":"a"}`)
	open := r.write("open.json", `{"type":"immediate","chat":"webhook:ops","text":"a"}`)
	must(t, os.Chmod(r.dir, 0o755)) // else nobody else reaches the file
	must(t, os.Chmod(filepath.Dir(r.dir), 0o755))
	must(t, os.Chmod(filepath.Dir(filepath.Dir(r.dir)), 0o755))
	must(t, errors.Join(os.Chmod(open, 0o666), os.Symlink(good, filepath.Join(r.dir, "link.json")),
		os.Mkdir(filepath.Join(r.dir, "dir.json"), 0o700), syscall.Mkfifo(filepath.Join(r.dir, "pipe.json"), 0o600)))
	r.write(".hidden.json", "half")
	r.files.Look(t.Context())
	r.requireLeft(".hidden.json", "secret.txt")
	if all := r.tasks(); len(all) != 0 {
		t.Errorf("these tasks were made: %v", all)
	}
}

func TestNoRejectedFileIsOverwrittenAndTheyAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.write("bad.json", fmt.Sprint(i))
		r.files.Look(t.Context())
	}
	for i, name := range []string{"bad.json", "bad.2.json", "bad.3.json"} {
		if text, err := os.ReadFile(filepath.Join(r.dir, "rejected", name)); string(text) != fmt.Sprint(i) {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	for i := range 1100 {
		r.write(fmt.Sprintf("%d.json", i), "bad")
	}
	r.files.Look(t.Context())
	if n := len(left(t, filepath.Join(r.dir, "rejected"))); n != 2000 {
		t.Errorf("%d files are kept, want 1000 with their reasons", n)
	}
}

func TestAFileWithoutRoomForItsTaskWaits(t *testing.T) {
	r := newRig(t)
	r.options.Limits = corebot.TaskLimits{PerChat: 1}
	r.begin(r.Tasks)
	for _, name := range []string{"a.json", "b.json"} {
		r.write(name, `{"type":"one-shot","chat":"webhook:ops","text":"x","at":"2999-01-01T00:00"}`)
	}
	r.files.Look(t.Context())
	r.requireLeft("b.json")
	_, err := r.Change(t.Context(), r.one().ID, 0, corebot.TaskRemove, time.Time{})
	must(t, err)
	r.files.Look(t.Context())
	r.requireLeft()
	r.one()
}

// TestABadFileThatCannotBeSetAsideHoldsUpNoOther: the name that is too long for the place among the bad files, and the
// place that is none.
func TestABadFileThatCannotBeSetAsideHoldsUpNoOther(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("a", 250) + ".json"
	for range 2 {
		r.write(long, "bad")
		r.files.Look(t.Context())
		r.requireLeft()
	}
	aside := filepath.Join(r.dir, "rejected")
	if n := len(left(t, aside)); n != 4 {
		t.Errorf("%d files are set aside, want 2 with their reasons", n)
	}
	must(t, errors.Join(os.RemoveAll(aside), os.WriteFile(aside, nil, 0o600)))
	r.write("bad.json", "bad")
	r.write("good.json", `{"type":"immediate","chat":"webhook:ops","text":"a"}`)
	r.files.Look(t.Context())
	r.requireLeft("bad.json")
	r.one()
	must(t, errors.Join(os.Remove(aside), os.Mkdir(aside, 0o700)))
	r.files.Look(t.Context())
	r.requireLeft()
}

// countingStore counts the tasks that are to be stored.
type countingStore struct {
	*storage.Tasks
	n int
}

func (s *countingStore) CreateOnce(ctx context.Context, task corebot.Task, l corebot.TaskLimits) (corebot.Task, bool,
	error,
) {
	s.n++
	return s.Tasks.CreateOnce(ctx, task, l)
}

func TestAChatWithoutRoomHoldsUpNoOtherChat(t *testing.T) {
	r := newRig(t)
	r.options.Limits = corebot.TaskLimits{PerChat: 1}
	r.options.Chat = func(_ context.Context, name string) (corebot.Key, error) {
		return corebot.Key{Agent: "main", Channel: "webhook", Chat: name}, nil
	}
	counts := &countingStore{Tasks: r.Tasks}
	r.begin(counts)
	put := func(name, chat string) {
		r.write(name, fmt.Sprintf(`{"type":"one-shot","chat":%q,"text":"x","at":"2999-01-01T00:00"}`, chat))
		time.Sleep(2 * time.Millisecond) // their order is that of their times
	}
	put("1.json", "full")
	put("2.json", "full")
	put("3.json", "full")
	put("4.json", "free")
	r.files.Look(t.Context())
	r.requireLeft("2.json", "3.json")
	if counts.n != 3 {
		t.Errorf("%d tasks were tried, want 3: the second file of a full chat waits for the first", counts.n)
	}
	for _, want := range [][]string{{"3.json"}, {}} {
		all := r.tasks()
		i := slices.IndexFunc(all, func(task corebot.Task) bool { return task.Key.Chat == "full" })
		_, err := r.Change(t.Context(), all[i].ID, 0, corebot.TaskRemove, time.Time{})
		must(t, err)
		r.files.Look(t.Context())
		r.requireLeft(want...)
	}
}

func TestAPeriodicFileThatIsDeletedMakesRoom(t *testing.T) {
	r := newRig(t)
	r.options.Limits = corebot.TaskLimits{PerChat: 1}
	r.begin(r.Tasks)
	r.write("daily.json", `{"type":"periodic","chat":"webhook:ops","text":"x","schedule":"@daily"}`)
	r.files.Look(t.Context())
	r.write("now.json", `{"type":"immediate","chat":"webhook:ops","text":"x"}`)
	r.files.Look(t.Context())
	r.requireLeft("daily.json", "now.json")
	must(t, os.Remove(filepath.Join(r.dir, "daily.json")))
	r.files.Look(t.Context())
	r.files.Look(t.Context())
	r.requireLeft()
	if got := r.one().Schedule.Kind; got != corebot.TaskOnce {
		t.Errorf("the task is %s", got)
	}
}

// slowStore does not store the first task before it is told to.
type slowStore struct {
	*storage.Tasks
	begun, goOn chan struct{}
	first       atomic.Bool
}

func (s *slowStore) CreateOnce(ctx context.Context, task corebot.Task, l corebot.TaskLimits) (corebot.Task, bool,
	error,
) {
	if s.first.CompareAndSwap(false, true) {
		close(s.begun)
		<-s.goOn
	}
	return s.Tasks.CreateOnce(ctx, task, l)
}

// TestTheSystemGoesOnToTellAfterItHasLostWords has more files change, while one is taken, than Linux keeps words of.
func TestTheSystemGoesOnToTellAfterItHasLostWords(t *testing.T) {
	raw, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	most, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
	switch {
	case err != nil || bad != nil:
		needs.Missing(t, "inotify", err, bad)
	case most > 100_000:
		t.Skip("to write so many files takes minutes")
	}
	r := newRig(t)
	store := &slowStore{Tasks: r.Tasks, begun: make(chan struct{}), goOn: make(chan struct{})}
	r.begin(store)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.files.Run(ctx) }()
	const text = `{"type":"immediate","chat":"webhook:ops","text":"a"}`
	r.write("first.json", text)
	<-store.begun
	a, b := r.write(".a", ""), filepath.Join(r.dir, ".b")
	for range most/2 + 5000 { // a rename is two words
		must(t, os.Rename(a, b))
		a, b = b, a
	}
	close(store.goOn)
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); len(r.tasks()) != n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("there are %d tasks, want %d", len(r.tasks()), n)
			}
		}
	}
	for i := range 3 {
		await(i + 1)
		time.Sleep(50 * time.Millisecond) // the words of before are read
		r.write(fmt.Sprintf("%d.json", i), text)
	}
	await(4)
	cancel()
	must(t, <-ended)
}

// TestTheSystemTellsOfANewFile runs on the clock and the file system of the machine.
func TestTheSystemTellsOfANewFile(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.files.Run(ctx) }()
	await := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); len(r.tasks()) != n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("there are %d tasks, want %d", len(r.tasks()), n)
			}
		}
	}
	const text = `{"type":"immediate","chat":"webhook:ops","text":"a"}`
	for i := range 3 {
		r.write(fmt.Sprintf("%d.json", i), text)
		await(i + 1)
	}
	r.write(".part", text)
	must(t, os.Rename(filepath.Join(r.dir, ".part"), filepath.Join(r.dir, "renamed.json")))
	await(4)
	cancel()
	must(t, <-ended)
}
