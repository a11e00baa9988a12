package redact

import "io"

// Writer writes to w what is left when secrets are taken out. What is written at once is looked at together: a secret that comes in two
// pieces passes.
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
