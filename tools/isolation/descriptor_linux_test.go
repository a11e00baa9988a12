//go:build linux && (amd64 || arm64)

package isolation

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The end of this pipe is the order to stop: whoever closes it by mistake stops a worker that is wanted.
func TestTheCollectorLeavesTheRequestsPipeOpen(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()  //nolint:errcheck // of a test
	defer out.Close() //nolint:errcheck // of a test
	inherited, err := unix.Dup(int(in.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited) //nolint:errcheck // of a test
	if err := (&request{Role: tellWalls}).send(out); err != nil {
		t.Fatal(err)
	}
	if r, err := readRequest(descriptor(inherited)); err != nil || r.Role != tellWalls {
		t.Fatalf("got %+v, %v", r, err)
	}
	for range 3 {
		runtime.GC()
	}
	if _, err := unix.FcntlInt(uintptr(inherited), unix.F_GETFD, 0); err != nil {
		t.Errorf("the pipe was closed: %v", err)
	}
}
