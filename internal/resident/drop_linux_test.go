package resident

import (
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// The system counts a program that lies in a file system in memory as shared memory.
var rssOf = regexp.MustCompile(`Rss(?:File|Shmem):\s*(\d+) kB`)

// mapped is how many KiB of files this process has in its memory.
func mapped(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := rssOf.FindAllSubmatch(status, -1)
	if len(found) < 2 {
		t.Fatal("the kernel does not say what of the memory is files, which Linux does since 4.5")
	}
	sum := 0
	for _, line := range found {
		n, err := strconv.Atoi(string(line[1]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func TestWhatTheStartRanIsDroppedAndTheProgramRunsOn(t *testing.T) {
	before := mapped(t)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 4 { // code runs while its pages go
		busy.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_ = fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(i))))
				}
			}
		})
	}
	least := before
	for range 50 {
		if err := Drop(); err != nil {
			t.Fatal(err)
		}
		least = min(least, mapped(t))
	}
	close(stop)
	busy.Wait()
	if least > before*3/4 {
		t.Errorf("%d KiB of files were in memory, and %d after it", before, least)
	}
}
