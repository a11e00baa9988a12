package channeltest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

const restPasses = 24 // of the retention while Corebot rests

// Redelivery holds a channel and the store behind it to one answer for a message that comes again. The message comes at
// the end of the window: the time for which its platform gives a message again. Time is virtual.
//
// Corebot is restarted in between. Its retention has made its passes, and keeps messages no longer than settings must
// keep them. A control forgets the message before that, and has a second turn. So the platform does give it again, and
// the memory of the store alone keeps it from being answered.
func Redelivery(t *testing.T, window time.Duration, subject func(t *testing.T) Subject) {
	for name, c := range map[string]struct {
		kept  time.Duration
		turns int
	}{
		"what is remembered has one turn": {window, 1}, "what is forgotten has another": {window / 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, subject, func(r *rig, _ *platform.Memory) { r.comesAgain(window, c.kept, c.turns) })
		})
	}
}

func (r *rig) comesAgain(window, kept time.Duration, turns int) {
	const margin = 5 * time.Minute // until the message comes again
	r.say("q0", "question 0")
	want := []string{answeredBy + "question 0"}
	shows := func() bool { return slices.Equal(r.Shown(), want) }
	r.within(comesBack, "an answer", shows)
	time.Sleep(time.Minute)
	r.stop()
	r.rest(window-margin, kept)
	r.start()
	r.within(margin/2, "the channel runs", func() bool { return r.running() })
	r.Again("q0")
	time.Sleep(comesBack)
	r.say("q1", "question 1")
	want = append(want, answeredBy+"question 1")
	r.within(comesBack, "an answer to what is new", func() bool { return slices.Contains(r.Shown(), want[1]) })
	time.Sleep(comesBack)
	had := 0
	for _, q := range r.model.Requests() {
		if strings.Contains(q.Messages[len(q.Messages)-1].Text, "question 0") {
			had++
		}
	}
	if had != turns || turns == 1 && !shows() { // a platform with idempotency keys shows the second answer to nobody
		r.t.Errorf("the message had %d turns, and not %d; the chat shows %q", had, turns, r.Shown())
	}
}

// rest has Corebot stand still for a time, with passes of a retention that keeps messages for another time.
func (r *rig) rest(d, kept time.Duration) {
	r.t.Helper()
	kit := apptest.New(r.t, apptest.Options{Dir: r.dir})
	defer kit.Close()
	retention, err := storage.NewRetention(kit.DB, storage.RetentionOptions{Messages: kept, Dedupe: kept})
	r.must(err)
	for range restPasses {
		time.Sleep(d / restPasses)
		r.must(retention.Sweep(r.t.Context()))
	}
}
