package chain

// stream keeps what the caller is shown to one answer.
type stream struct {
	onText  func(string)
	onReset func()
	shown   bool // something of an answer that then failed
}

// begin is where the next answer streams to. What an earlier one has shown is taken back; if the caller has no way to do so, the next one is
// not streamed.
func (s *stream) begin() func(string) {
	if s.onText == nil {
		return nil
	}
	if s.shown {
		if s.onReset == nil {
			return nil
		}
		s.onReset()
		s.shown = false
	}
	return func(text string) {
		s.shown = true
		s.onText(text)
	}
}
