package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

// openSessions forget a session as the library does.
func openSessions(most int, idle time.Duration) *sessions {
	var s *sessions
	s = newSessions(most, idle, func(id string) { _, _ = s.Terminate(id) })
	return s
}

func (s *sessions) has(id string) bool {
	_, err := s.Validate(id)
	return err == nil
}

func TestASessionThatIsIdleForLongHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSessions(10, time.Minute)
		id := s.Generate()
		for range 5 {
			time.Sleep(50 * time.Second)
			s.use(id)()
		}
		if !s.has(id) {
			t.Fatal("it was used, and has ended")
		}
		done := s.use(id)
		time.Sleep(time.Hour)
		done()
		if s.use(id)(); !s.has(id) {
			t.Fatal("a request was under way, and it has ended")
		}
		time.Sleep(61 * time.Second)
		if s.use(id)(); s.has(id) || s.count() != 0 {
			t.Error("it was idle for a minute, and goes on")
		}
	})
}

func TestTheSessionThatWasIdleTheLongestMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openSessions(3, time.Hour)
		var ids []string
		for range 3 {
			if !s.room() {
				t.Fatal("there is no room")
			}
			ids = append(ids, s.Generate())
			time.Sleep(time.Second)
		}
		defer s.use(ids[0])()
		if !s.room() || !s.has(ids[0]) || s.has(ids[1]) || !s.has(ids[2]) {
			t.Errorf("room was made of the wrong one: %v %v %v", s.has(ids[0]), s.has(ids[1]), s.has(ids[2]))
		}
		defer s.use(s.Generate())()
		defer s.use(ids[2])()
		if s.room() {
			t.Error("room was made of a session in use")
		}
	})
}
