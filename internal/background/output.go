package background

import "sync"

// Output keeps the newest part of what a program prints: the limit, and less than twice as much. It never holds the
// program up.
type Output struct {
	limit int

	mu    sync.Mutex
	kept  []byte
	total int64         // bytes that were ever written
	seen  int64         // how far somebody has read
	fresh chan struct{} // closed by the next write; nil: nobody waits
}

// Write takes what a program prints.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	o.kept = append(o.kept, p[max(0, len(p)-o.limit):]...)
	if len(o.kept) > 2*o.limit { // not at each write: it is a copy
		o.kept = append(o.kept[:0], o.kept[len(o.kept)-o.limit:]...)
	}
	if o.fresh != nil {
		close(o.fresh)
		o.fresh = nil
	}
	return len(p), nil
}

// more is closed when something is written.
func (o *Output) more() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fresh == nil {
		o.fresh = make(chan struct{})
	}
	return o.fresh
}

// Text is a part of an output.
type Text struct {
	Text    string
	Dropped int64 // bytes before it that were asked for and are no longer kept
	Next    int64 // the place behind it
}

// read gives what is kept from a place on; negative: from where the last reader ended.
func (o *Output) read(from int64) Text {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from < 0 {
		from = o.seen
	}
	from = min(from, o.total)
	first := o.total - int64(len(o.kept))
	t := Text{Dropped: max(0, first-from), Next: o.total}
	t.Text = string(o.kept[max(0, from-first):])
	return t
}

func (o *Output) readTo(place int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = max(o.seen, place)
}
