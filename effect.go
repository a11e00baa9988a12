package corebot

// Effect is a change of Corebot's own database that a tool asks for, as data. It is carried out in the very commit that journals the
// tool's outcome: either both happened or neither, so that a crash never leaves such a call unknown. The zero Effect changes nothing.
type Effect struct {
	Replay int64 // the dead letter to put back into the queue
}

// Refused says that an [Effect] was not made because a rule of the data forbids it, such as a thing that is not there. Nothing was
// changed. Any other error of an effect is trouble with the store, or a lost lease.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }
