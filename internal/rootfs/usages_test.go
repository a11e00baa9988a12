package rootfs

import (
	"fmt"
	"testing"
)

func TestTheUsageOfSoManyFoldersIsKnownAndNoMore(t *testing.T) {
	root, err := NewBounded(t.TempDir(), nil, Quota{Dir: ChatsDir, Bytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // only a test's
	for i := range usagesKept + 10 {
		if err := root.Admits(fmt.Sprintf("chats/%d/files", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(root.usages.known); n != usagesKept {
		t.Errorf("the usage of %d folders is known, want %d", n, usagesKept)
	}
}
