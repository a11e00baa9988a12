package channeltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// Other is somebody beside the people of a chat: a program that says something whenever it can, or the network that
// gives the bot its own words back. Say has it ask the bot something. Most is how many of its questions are answered in
// an hour.
type Other struct {
	Say  func(text string)
	Most int
}

// loopEvery is how far apart the questions of a program are: it has heard the answer to the last one by then.
const loopEvery = 10 * time.Second

// Company holds a channel to few answers for others than people, so that no two programs talk for ever. Each of the
// others asks again and again in the time of an hour, and more often than it is answered. Then a person is answered as
// before. Time is virtual.
func Company(t *testing.T, subject func(t *testing.T) Subject) {
	virtually(t, subject, func(r *rig, _ *platform.Memory) {
		asked := 0
		person := func() {
			text := fmt.Sprint("question of a person ", asked)
			r.say(fmt.Sprint("person", asked), text)
			asked++
			r.within(comesBack, "an answer to a person", func() bool {
				return slices.ContainsFunc(r.Shown(), func(s string) bool {
					return strings.HasSuffix(s, answeredBy+text) // in a group it can begin with a name
				})
			})
		}
		person()
		for _, name := range slices.Sorted(maps.Keys(r.Company)) {
			other, before := r.Company[name], len(r.model.Requests())
			for i := range other.Most + 10 {
				other.Say(fmt.Sprintf("question of %s, %d", name, i))
				time.Sleep(loopEvery)
			}
			time.Sleep(comesBack)
			if turns := len(r.model.Requests()) - before; turns != other.Most {
				t.Errorf("%s has %d answers in an hour, and not %d", name, turns, other.Most)
			}
			person()
			time.Sleep(anHour)
		}
	})
}
