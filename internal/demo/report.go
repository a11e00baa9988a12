package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Count is one number of a scene, beside the number that was promised.
type Count struct {
	What string `json:"what"`
	Want int    `json:"want"`
	Got  int    `json:"got"`
}

// Scene is one promise: what was done to break it, and what was counted afterwards.
type Scene struct {
	Promise string  `json:"promise"`
	Did     string  `json:"did"`
	Counts  []Count `json:"counts"`
	Note    string  `json:"note,omitempty"` // what a reader may want to know of the counts
}

// Wrong counts the numbers that are not as promised.
func (s Scene) Wrong() (n int) {
	for _, c := range s.Counts {
		if c.Got != c.Want {
			n++
		}
	}
	return n
}

// Print shows the scene to people.
func (s Scene) Print(w io.Writer, number int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d. %s\n   %s\n", number, s.Promise, strings.ReplaceAll(s.Did, "\n", "\n   "))
	for _, c := range s.Counts {
		mark, wrong := "ok   ", ""
		if c.Got != c.Want {
			mark, wrong = "WRONG", fmt.Sprintf("  (want %d)", c.Want)
		}
		fmt.Fprintf(&b, "   %s %4d  %s%s\n", mark, c.Got, c.What, wrong)
	}
	if s.Note != "" {
		fmt.Fprintf(&b, "   %s\n", strings.ReplaceAll(s.Note, "\n", "\n   "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Report is what a whole demonstration has found.
type Report struct {
	Counts  int     `json:"counts"`
	Wrong   int     `json:"wrong"`
	Kills   int     `json:"kills"`
	Seconds float64 `json:"seconds"`
}

// Print shows the sum to people.
func (r Report) Print(w io.Writer) error {
	verdict := fmt.Sprintf("All %d counts are as promised", r.Counts)
	if r.Wrong > 0 {
		verdict = fmt.Sprintf("%d of %d counts are WRONG", r.Wrong, r.Counts)
	}
	took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	_, err := fmt.Fprintf(w, "\n%s, after %d kills in %v.\n", verdict, r.Kills, took)
	return err
}
