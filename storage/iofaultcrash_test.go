package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/vfstest"
)

// Every answer of the store during a failed sync stays true, even if the program crashes or the power fails soon after.
func TestAFailedSyncMakesNoWordFalseThatACrashCouldProve(t *testing.T) {
	files := template(t)
	for i, fault := range faultsToTry(vfstest.Sync) {
		if wrong := suffer(t, files, fault).crashes(t, uint64(i)); wrong != "" {
			t.Errorf("%+v: %s", fault, wrong)
		}
	}
}

// crashes looks at what a crash of the program or a power cut soon after the fault would have left.
func (o *outage) crashes(t *testing.T, seed uint64) string {
	t.Helper()
	struck, ok := o.recording.FirstFailure()
	if !ok {
		return ""
	}
	chance := rand.New(rand.NewPCG(seed, 1))
	disk := o.recording.Disk()
	base := t.TempDir()
	for after := 0; after < 200; after += 1 + after*long.Or(4, 1)/2 {
		at := min(struck+after, o.recording.Len())
		disk.Advance(at)
		for how, files := range map[string]vfstest.Files{"a crash": disk.Whole(), "a power cut": disk.Cut(chance)} {
			dir := filepath.Join(base, fmt.Sprint(how, after))
			must(t, files.WriteTo(dir))
			if wrong := o.inspect(t, dir, at); len(wrong) > 0 {
				return fmt.Sprintf("%s %d calls after the fault: %s", how, after, strings.Join(wrong, "; "))
			}
			must(t, os.RemoveAll(dir))
		}
	}
	return ""
}
