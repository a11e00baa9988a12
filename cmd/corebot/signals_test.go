package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheSameSignalAtOnceAgainIsNoSecondOne(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration
		next  os.Signal
		ends  bool
	}{
		"the echo of a wrapper": {time.Millisecond, syscall.SIGTERM, false},
		"the same, later":       {echoes + time.Millisecond, syscall.SIGTERM, true},
		"another, at once":      {time.Millisecond, os.Interrupt, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, begun, ended := make(chan os.Signal, 2), 0, false
				go func() { twice(signals, func() { begun++ }); ended = true }()
				signals <- syscall.SIGTERM
				synctest.Wait()
				time.Sleep(c.later)
				signals <- c.next
				synctest.Wait()
				if begun != 1 || ended != c.ends {
					t.Errorf("the first began %d stops, and the second ended it: %v, want %v", begun, ended, c.ends)
				}
				if !ended {
					time.Sleep(time.Second)
					signals <- syscall.SIGTERM
					synctest.Wait()
				}
				if !ended {
					t.Error("a signal a second later did not end it")
				}
			})
		})
	}
}
