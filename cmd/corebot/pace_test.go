package main

import (
	"sync"
	"time"
)

// pace lets callers go on as the cycles do, evenly, so that some are at work whenever the end comes.
type pace struct {
	tokens  chan struct{}
	more    chan struct{}
	stopped chan struct{}
	stop    func()
	each    int
}

func newPace(each int) *pace {
	p := &pace{tokens: make(chan struct{}), more: make(chan struct{}, 1), stopped: make(chan struct{}), each: each}
	p.stop = sync.OnceFunc(func() { close(p.stopped) })
	go p.run()
	return p
}

// allow lets more messages pass, unless those of the last time are still to come.
func (p *pace) allow() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *pace) run() {
	for {
		select {
		case <-p.more:
		case <-p.stopped:
			return
		}
		for range p.each {
			select {
			case p.tokens <- struct{}{}:
				time.Sleep(10 * time.Millisecond)
			case <-p.stopped:
				return
			}
		}
	}
}

// wait holds up a caller until there is a token for it.
func (p *pace) wait(int) {
	select {
	case <-p.tokens:
	case <-p.stopped:
	}
}
