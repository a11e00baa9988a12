package corebot

// ClientCall names a change that a client asks for outside of any turn by what it would be repeated with.
type ClientCall struct {
	Principal Principal
	Key       string // the client's idempotency key; empty: each call is another
	Tool      string
	Args      []byte // JSON, as they came
}

// Said is an entry of the history with its place, from which older ones can be read on. A place means something to the history alone.
type Said struct {
	HistoryEntry
	Place string
}
