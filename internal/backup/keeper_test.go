package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/corebot/corebot"
)

// kept is a keeper that runs for as long as its test.
func kept(t *testing.T, h Home, o Options) *Keeper {
	t.Helper()
	k, err := NewKeeper(t.Context(), h, o)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return k
}

// after lets virtual time pass, and says how many backups there are.
func after(t *testing.T, d time.Duration, dir string) int {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	all, err := List(dir)
	must(t, err)
	return len(all)
}

func TestBackupsAreMadeOnScheduleAndOldOnesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := fakeHome(t)
		dir := filepath.Join(t.TempDir(), "backups")
		kept(t, h, Options{Dir: dir, Every: time.Hour, Keep: 3})
		for i, want := range []int{0, 1, 1, 2, 3, 3} {
			pause := []time.Duration{settle - 1, 1, time.Hour - 1, 1, time.Hour, 3 * time.Hour}[i]
			if n := after(t, pause, dir); n != want {
				t.Errorf("at look %d there are %d backups, want %d", i, n, want)
			}
		}
	})
}

func TestWithoutAPeriodNoBackupIsMadeByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := fakeHome(t)
		dir := filepath.Join(t.TempDir(), "backups")
		k := kept(t, h, Options{Dir: dir})
		if n := after(t, 1000*time.Hour, dir); n != 0 {
			t.Errorf("there are %d", n)
		}
		_, err := k.Make(t.Context(), "")
		must(t, err)
		if n := after(t, 0, dir); n != 1 {
			t.Errorf("there are %d", n)
		}
	})
}

func TestTheNextBackupIsDueOnePeriodAfterTheNewestOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := fakeHome(t)
		dir := filepath.Join(t.TempDir(), "backups")
		_, err := Make(t.Context(), h, filepath.Join(dir, NameOf(time.Now(), fakeID)))
		must(t, err)
		foreign := filepath.Join(dir, "foreign")
		time.Sleep(20 * time.Minute)
		_, err = Make(t.Context(), h, foreign)
		must(t, err)
		changes(fakeID, "another")(t, foreign) // a backup of another home counts for nothing
		r := prometheus.NewRegistry()
		made := float64(time.Now().Add(-20*time.Minute).UnixMilli()) / 1000
		k := kept(t, h, Options{Dir: dir, Every: time.Hour, Keep: 9, Metrics: r})
		if got := gauge(t, r, "corebot_backup_last_success_timestamp_seconds"); got != made {
			t.Errorf("the last success was at %v, want %v", got, made)
		}
		if n := after(t, 40*time.Minute-1, dir); n != 2 {
			t.Errorf("there are %d", n)
		}
		if n := after(t, 1, dir); n != 3 {
			t.Errorf("there are %d", n)
		}
		time.Sleep(30 * time.Minute)
		_, err = k.Make(t.Context(), "") // by hand: the next one is due an hour later
		must(t, err)
		if n := after(t, time.Hour-1, dir); n != 4 {
			t.Errorf("there are %d", n)
		}
		if n := after(t, 1, dir); n != 5 {
			t.Errorf("there are %d", n)
		}
	})
}

func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := r.Gather()
	must(t, err)
	for _, family := range all {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestABackupThatFailsIsTriedAgainWithGrowingPausesCountedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := fakeHome(t)
		db := h.Database.(*fakeDatabase)
		db.fails(errors.New("the disk is on fire"))
		dir := filepath.Join(t.TempDir(), "backups")
		k := kept(t, h, Options{Dir: dir, Every: 24 * time.Hour, Keep: 3})
		failures := func() float64 { return testutil.ToFloat64(k.results.WithLabelValues(failed)) }
		for _, step := range []struct {
			pause time.Duration
			want  float64
		}{
			{0, 0},
			{settle, 1},
			{time.Minute, 2},
			{2*time.Minute - 1, 2},
			{1, 3},
			{4 * time.Minute, 4},
			{10 * time.Hour, 25},
		} {
			time.Sleep(step.pause)
			synctest.Wait()
			if got := failures(); got != step.want {
				t.Errorf("after %v: %v failures, want %v", step.pause, got, step.want)
			}
		}
		if got := k.Failing(t.Context()); !strings.Contains(got, "on fire") {
			t.Errorf("it is failing with %q", got)
		}
		db.fails(nil)
		if n := after(t, time.Hour, dir); n != 1 || k.Failing(t.Context()) != "" {
			t.Errorf("%d backups, failing with %q", n, k.Failing(t.Context()))
		}
	})
}

// A retry after each backup would fill the disk with backups that nobody removes.
func TestOldBackupsThatCannotBeRemovedMakeNoMoreBackupsAndAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := fakeHome(t)
		dir := filepath.Join(t.TempDir(), "backups")
		old := filepath.Join(dir, NameOf(time.Now().Add(-time.Hour), fakeID))
		_, err := Make(t.Context(), h, old)
		must(t, err)
		inTheWay := func(context.Context, string, Manifest, bool) error {
			return os.MkdirAll(filepath.Join(dir, partPrefix(fakeID)+filepath.Base(old), "x"), 0o700)
		}
		k := kept(t, h, Options{Dir: dir, Every: time.Hour, Keep: 1, Note: inTheWay})
		if n := after(t, 90*time.Minute, dir); n != 2 || !strings.Contains(k.Failing(t.Context()), "old backups stay") {
			t.Errorf("%d backups, failing with %q", n, k.Failing(t.Context()))
		}
		if made, err := k.Make(t.Context(), ""); err == nil || made.Path == "" {
			t.Errorf("%v %+v", err, made)
		}
	})
}

func TestOneBackupIsMadeAtATime(t *testing.T) {
	h, _ := fakeHome(t)
	var k *Keeper
	var second error
	h.Database.(*fakeDatabase).then = func() { _, second = k.Make(t.Context(), "") }
	k, err := NewKeeper(t.Context(), h, Options{Dir: t.TempDir(), Keep: 1})
	must(t, err)
	_, err = k.Make(t.Context(), "")
	must(t, err)
	if !errors.Is(second, corebot.ErrConflict) {
		t.Errorf("%v", second)
	}
	if n := testutil.ToFloat64(k.results.WithLabelValues(failed)); n != 0 {
		t.Errorf("%v failures: nothing has failed", n)
	}
}

func TestABackupElsewhereIsNoneOfTheScheduleAndRemovesNothing(t *testing.T) {
	h, _ := fakeHome(t)
	dir := t.TempDir()
	var noted []string
	note := func(_ context.Context, path string, _ Manifest, _ bool) error {
		noted = append(noted, path)
		return errors.New("a full disk")
	}
	k, err := NewKeeper(t.Context(), h, Options{Dir: dir, Keep: 1, Note: note})
	must(t, err)
	first, err := k.Make(t.Context(), "")
	must(t, err)
	was := k.last.MadeAt
	to := filepath.Join(dir, "mine")
	elsewhere, err := k.Make(t.Context(), to)
	must(t, err)
	if len(elsewhere.Removed) != 0 || elsewhere.Path != to || !k.last.MadeAt.Equal(was) || len(noted) != 2 {
		t.Errorf("%+v; the last is of %v; noted %v", elsewhere, k.last.MadeAt, noted)
	}
	time.Sleep(2 * time.Millisecond) // names have milliseconds
	second, err := k.Make(t.Context(), "")
	must(t, err)
	if len(second.Removed) != 1 || second.Removed[0] != first.Path {
		t.Errorf("removed %v", second.Removed)
	}
}

func TestADirectoryOfBackupsWithinAWorkspaceIsRefused(t *testing.T) {
	h, dir := fakeHome(t)
	_, err := NewKeeper(t.Context(), h, Options{Dir: filepath.Join(dir, "workspace", "backups")})
	if !errors.Is(err, corebot.ErrInvalid) {
		t.Error(err)
	}
}
