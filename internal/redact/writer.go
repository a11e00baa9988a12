package redact

import "io"

// Writer takes secrets out of its input and writes the rest to w. It looks at each write by itself: a secret that comes
// in two writes passes.
func (r *Redactor) Writer(w io.Writer) io.Writer { return redacting{r, w} }

type redacting struct {
	redactor *Redactor
	to       io.Writer
}

// Write says that all was taken when it was: how long a secret was is nobody's business.
func (w redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.redactor.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
