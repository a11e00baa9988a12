package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

const pageBytes = 4096

// longBody is more than a page of the database has room for: the rest of it is in overflow pages.
const longBody = 40 << 10

func longMessage(chat, id string) corebot.Message {
	m := testMessage(chat, id)
	m.Parts = corebot.TextPart(strings.Repeat("x", longBody))
	return m
}

// breakOverflow overwrites the pointers to the overflow pages of long bodies in a closed database, as a stray write
// does, and gives back what repairs the file.
func breakOverflow(t *testing.T, dir string) (repair func()) {
	t.Helper()
	path := filepath.Join(dir, FileName)
	file, err := os.ReadFile(path)
	must(t, err)
	whole := bytes.Clone(file)
	filling := bytes.Repeat([]byte("x"), pageBytes-100)
	var starts []uint32
	inner := map[uint32]bool{}
	for p := 0; p+pageBytes <= len(file); p += pageBytes {
		page := file[p : p+pageBytes]
		if bytes.Contains(page, filling) {
			starts = append(starts, uint32(p/pageBytes+1))
			inner[binary.BigEndian.Uint32(page)] = true
		}
	}
	broken := 0
	for _, start := range starts {
		pointer := binary.BigEndian.AppendUint32([]byte("xxxx"), start)
		if at := bytes.Index(file, pointer); !inner[start] && at > 0 {
			binary.BigEndian.PutUint32(file[at+4:], 0xffffff)
			broken++
		}
	}
	if broken == 0 {
		t.Fatal("no overflow pointer was found")
	}
	must(t, os.WriteFile(path, file, 0o600))
	return func() { must(t, os.WriteFile(path, whole, 0o600)) }
}

// damaged is a database with a message in the chat "damaged" whose body cannot be read.
func damaged(t *testing.T) (dir string, repair func()) {
	t.Helper()
	dir = seeded(t)
	earlier(t, dir, func(db *DB) {
		_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{longMessage("damaged", "long")}, corebot.Limits{})
		must(t, err)
		publishTest(t, db, "damaged", "behind")
	})
	return dir, breakOverflow(t, dir)
}

// consume claims and settles like a worker until the test is over, and says what it got.
func consume(t *testing.T, db *DB) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	got := make(chan string, 1000)
	go func() {
		for {
			ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
			if err != nil {
				return
			}
			for _, d := range ds {
				if NewQueue(db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}) == nil {
					got <- d.Message.ID
				}
			}
		}
	}()
	return got
}

// next waits for what a consumer got.
func next(t *testing.T, got <-chan string) string {
	t.Helper()
	select {
	case id := <-got:
		return id
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was claimed in 20 seconds")
		return ""
	}
}

func TestABodyThatCannotBeReadHoldsUpNoOtherChat(t *testing.T) {
	dir, _ := damaged(t)
	db := openTest(t, dir)
	got := consume(t, db)
	const others = 193
	for i := range others {
		id := fmt.Sprint("m", i)
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{testMessage("chat "+id, id)}, corebot.Limits{})
		if err != nil || r[0].Err != nil {
			t.Fatalf("publish %d to another chat: %v", i, err)
		}
	}
	claimed := map[string]bool{}
	for len(claimed) < others {
		claimed[next(t, got)] = true
	}
	if claimed["long"] || claimed["behind"] {
		t.Error("a message of the damaged chat was claimed")
	}
}
