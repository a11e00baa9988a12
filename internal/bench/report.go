package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unit says how a figure is rounded and written.
type Unit int

const (
	PerSecond    Unit = iota // whole
	Milliseconds             // to a microsecond
	Ratio                    // and other small numbers: to a thousandth
	Share                    // of the ceiling, which may be far away: to three digits
	Bytes                    // whole in JSON, MiB for people
)

// Target is the value that a figure should reach, or not exceed. The zero Target is none.
type Target struct {
	Value  float64
	AtMost bool
}

// Figure is one measured quantity.
type Figure struct {
	Name      string // its key in JSON
	Label     string // what people read
	Unit      Unit
	Series    Series
	Target    Target
	OfCeiling Series // of a rate: what share of the engine's ceiling it is; nil where that says nothing
}

// Setting is a condition of the measurement, such as the number of messages.
type Setting struct {
	Name  string // its key in JSON
	Value any    // a number or a text
}

// Report is what a benchmark has found.
type Report struct {
	Title    string
	Settings []Setting
	Figures  []Figure
}

// MarshalJSON writes one flat object: each figure by its median (with its share of the ceiling: publish_of_raw beside
// publish_per_s), and each setting. "min" and "max" have the least and the greatest value of each figure in a round. A
// value that is not a number, such as a ratio to nothing, is null.
func (r Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	o := objectWriter{to: &b}
	o.begin()
	for _, f := range r.Figures {
		o.field(f.Name, f.Unit.number(f.Series.Median()))
		if f.OfCeiling != nil {
			o.field(strings.TrimSuffix(f.Name, "_per_s")+"_of_raw", Share.number(f.OfCeiling.Median()))
		}
	}
	for _, s := range r.Settings {
		o.field(s.Name, s.Value)
	}
	for _, edge := range []struct {
		name string
		of   func(Series) float64
	}{{"min", lowest}, {"max", highest}} {
		o.key(edge.name)
		o.begin()
		for _, f := range r.Figures {
			o.field(f.Name, f.Unit.number(edge.of(f.Series)))
		}
		o.end()
	}
	o.end()
	return b.Bytes(), o.err
}

// objectWriter writes JSON objects whose fields keep their order, which those of a map do not.
type objectWriter struct {
	to    *bytes.Buffer
	inner bool // the object has a field already
	err   error
}

func (o *objectWriter) begin() { o.to.WriteByte('{'); o.inner = false }
func (o *objectWriter) end()   { o.to.WriteByte('}'); o.inner = true }

func (o *objectWriter) key(name string) {
	if o.inner {
		o.to.WriteByte(',')
	}
	o.inner = true
	o.to.WriteString(strconv.Quote(name) + ":")
}

func (o *objectWriter) field(name string, value any) {
	o.key(name)
	text, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write %s: %w", name, err)
	}
	o.to.Write(text)
}

func lowest(s Series) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Min(s)
}

func highest(s Series) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Max(s)
}

// number rounds a value for JSON; what is no number is nil.
func (u Unit) number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	scale := 1.0
	switch u {
	case Milliseconds, Ratio:
		scale = 1_000
	case Share:
		scale = 100_000
	}
	return math.Round(v*scale) / scale
}

// text writes a value for people.
func (u Unit) text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case u == PerSecond:
		return grouped(int64(math.Round(v))) + "/s"
	case u == Milliseconds:
		return fmt.Sprintf("%.3f ms", v)
	case u == Bytes:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case u == Share:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// grouped writes a whole number with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// text says what is to be reached.
func (t Target) text(u Unit) string {
	switch {
	case t == Target{}:
		return ""
	case t.AtMost:
		return "≤ " + u.text(t.Value)
	}
	return "≥ " + u.text(t.Value)
}

// Print writes an aligned table of at most 100 columns.
func (r Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Title)
	row := func(label, median, low, high, target, share string) {
		line := fmt.Sprintf("%-30s%14s%14s%14s%16s%10s", label, median, low, high, target, share)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	shares := slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.OfCeiling != nil })
	head := ""
	if shares {
		head = "of raw"
	}
	row("", "median", "min", "max", "target", head)
	for _, f := range r.Figures {
		share := ""
		if f.OfCeiling != nil {
			share = Share.text(f.OfCeiling.Median())
		}
		row(f.Label, f.Unit.text(f.Series.Median()), f.Unit.text(lowest(f.Series)), f.Unit.text(highest(f.Series)),
			f.Target.text(f.Unit), share)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
