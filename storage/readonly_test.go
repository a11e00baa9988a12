package storage

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// TestADatabaseThatCannotBeWrittenSaysWhatMendsIt: no mode of a file keeps root out, so it is opened only to be read.
func TestADatabaseThatCannotBeWrittenSaysWhatMendsIt(t *testing.T) {
	dir := t.TempDir()
	openTest(t, dir)
	ro, err := openReadOnly(filepath.Join(dir, "corebot.db"))
	must(t, err)
	defer ro.Close() //nolint:errcheck // only read
	_, err = ro.Exec("CREATE TABLE more (n)")
	if err = classify(err); !strings.Contains(corebot.HintOf(err), "writable for the user who runs Corebot") {
		t.Errorf("%v (%s)", err, corebot.HintOf(err))
	}
}
