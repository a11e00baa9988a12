//go:build linux && (amd64 || arm64)

package isolation

import (
	"bytes"
	"strings"
	"testing"
)

// The reader of a request takes it in pieces. For every length, it must find the end of the request and the end of the
// sent bytes in the same place.
func TestNothingIsLeftOfARequestWhateverItsLength(t *testing.T) {
	for n := range 2_048 {
		var pipe bytes.Buffer
		sent := request{Role: becomeProgram, Dir: strings.Repeat("x", n)}
		must(t, sent.send(&pipe))
		got, err := readRequest(&pipe)
		must(t, err)
		if got.Dir != sent.Dir || pipe.Len() != 0 {
			t.Fatalf("%d bytes are left of a request with %d", pipe.Len(), n)
		}
	}
}
