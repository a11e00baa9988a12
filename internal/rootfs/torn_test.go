package rootfs_test

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/rootfs"
)

var kills = flag.Int("files.kills", 12, "kills of a process that writes; the long form is 500")

// tornSize is what a write writes, in bytes: enough to be cut in the middle.
const tornSize = 1 << 20

// TestAWriteThatIsKilledLeavesTheOldFileOrTheNewOne has other processes write the same file without end, each time
// whole with another letter, and kills each at some moment after its first write.
func TestAWriteThatIsKilledLeavesTheOldFileOrTheNewOne(t *testing.T) {
	if dir := os.Getenv("COREBOT_TEST_WRITES"); dir != "" {
		writeWithoutEnd(t, dir)
	}
	root, dir := open(t)
	seen := map[byte]bool{}
	for kill := range *kills {
		before, _ := os.Stat(filepath.Join(dir, "f")) // none before the first
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAWriteThatIsKilled")
		cmd.Env = append(os.Environ(), "COREBOT_TEST_WRITES="+dir, "COREBOT_TEST_LETTER="+string(letter(kill)))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if now, err := os.Stat(filepath.Join(dir, "f")); err == nil && !os.SameFile(before, now) {
				break
			} else if time.Since(began) > 20*time.Second {
				t.Fatal("it writes nothing")
			}
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		data, err := root.ReadFile("f", 2*tornSize)
		if err != nil || len(data) != tornSize || bytes.Count(data, data[:1]) != tornSize {
			t.Fatalf("after kill %d the file has %d bytes, %v", kill, len(data), err)
		}
		seen[data[0]] = true
	}
	if _, err := root.Sweep(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("after a sweep there are %v", left)
	}
	if len(seen) < 2 {
		t.Errorf("only one content was ever seen: the test is broken")
	}
}

func letter(n int) byte { return byte('a' + n%26) }

// writeWithoutEnd begins with a letter of its own.
func writeWithoutEnd(t *testing.T, dir string) {
	root, err := rootfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := int(os.Getenv("COREBOT_TEST_LETTER")[0] - 'a'); ; i++ {
		if err := root.Write("f", bytes.Repeat([]byte{letter(i)}, tornSize)); err != nil {
			t.Fatal(err)
		}
	}
}
