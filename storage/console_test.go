package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func digestOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// onConsole runs a test in virtual time.
func onConsole(t *testing.T, test func(t *testing.T, db *DB, all *Console)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		test(t, db, NewConsole(db))
	})
}

func TestALoginAddressIsUsedOnceAndInTime(t *testing.T) {
	onConsole(t, func(t *testing.T, _ *DB, all *Console) {
		expires, err := all.AddLink(t.Context(), digestOf("code"))
		if err != nil || !expires.Equal(time.Now().Add(corebot.ConsoleLinkTime)) {
			t.Fatalf("it expires at %v: %v", expires, err)
		}
		made, err := all.Login(t.Context(), digestOf("code"), digestOf("secret"), "a browser")
		must(t, err)
		for _, again := range []string{"code", "another"} {
			_, err := all.Login(t.Context(), digestOf(again), digestOf("stolen"), "")
			if !errors.Is(err, corebot.ErrNotFound) {
				t.Errorf("the code %q: %v", again, err)
			}
		}
		found, err := all.ByDigest(t.Context(), digestOf("secret"))
		if err != nil || found.ID != made.ID || found.Browser != "a browser" || !found.InForce(time.Now()) {
			t.Errorf("the session is %+v: %v", found, err)
		}
		if _, err := all.ByDigest(t.Context(), digestOf("stolen")); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("a session of a used address: %v", err)
		}
		_, err = all.AddLink(t.Context(), digestOf("late"))
		must(t, err)
		time.Sleep(corebot.ConsoleLinkTime)
		if _, err := all.Login(t.Context(), digestOf("late"), digestOf("x"), ""); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("after its time: %v", err)
		}
		time.Sleep(corebot.ConsoleSessionTime)
		if found, err := all.ByDigest(t.Context(), digestOf("secret")); err != nil || found.InForce(time.Now()) {
			t.Errorf("a session is in force after its time: %+v, %v", found, err)
		}
	})
}

func TestLoginAddressesAndSessionsAreBounded(t *testing.T) {
	onConsole(t, func(t *testing.T, _ *DB, all *Console) {
		for i := range corebot.MaxConsoleLinks + 1 {
			_, err := all.AddLink(t.Context(), digestOf(fmt.Sprint("unused", i)))
			must(t, err)
		}
		if _, err := all.Login(t.Context(), digestOf("unused0"), digestOf("x"), ""); !errors.Is(err,
			corebot.ErrNotFound) {
			t.Errorf("of too many addresses the oldest: %v", err)
		}
		for i := range corebot.MaxConsoleSessions + 1 {
			_, err := all.AddLink(t.Context(), digestOf("code"))
			must(t, err)
			_, err = all.Login(t.Context(), digestOf("code"), digestOf(fmt.Sprint("s", i)), fmt.Sprint("browser ", i))
			must(t, err)
			if i == 1 { // the first is used later than the second
				time.Sleep(time.Hour)
				first, err := all.ByDigest(t.Context(), digestOf("s0"))
				must(t, err)
				must(t, all.Used(t.Context(), first.ID, time.Now()))
				must(t, all.Used(t.Context(), first.ID, time.Now().Add(-time.Hour))) // a clock that stepped back
				time.Sleep(time.Hour)
			}
		}
		for name, want := range map[string]bool{"s0": true, "s1": false, "s2": true} {
			if s, err := all.ByDigest(t.Context(), digestOf(name)); err != nil || s.InForce(time.Now()) != want {
				t.Errorf("the session %s is %+v: %v", name, s, err)
			}
		}
		seen, after := 0, ""
		for pages := 0; pages == 0 || after != ""; pages++ {
			found, next, err := all.Page(t.Context(), false, after, 7)
			must(t, err)
			seen, after = seen+len(found), next
		}
		if seen != corebot.MaxConsoleSessions {
			t.Errorf("the pages have %d sessions", seen)
		}
	})
}

func TestARevokedSessionIsOverAndTheTrailSaysWho(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, all *Console) {
		_, err := all.AddLink(t.Context(), digestOf("code"))
		must(t, err)
		made, err := all.Login(t.Context(), digestOf("code"), digestOf("secret"), "a browser")
		must(t, err)
		me := corebot.Principal{Channel: "console", ID: "me"}
		by := corebot.AuditEvent{Entry: corebot.EntryConsole, Principal: me}
		must(t, all.As(by).Revoke(t.Context(), made.ID))
		if err := all.Revoke(t.Context(), made.ID); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("a second time: %v", err)
		}
		found, err := all.ByDigest(t.Context(), digestOf("secret"))
		if err != nil || found.InForce(time.Now()) || found.RevokedAt.IsZero() {
			t.Errorf("it is %+v: %v", found, err)
		}
		if open, _, err := all.Page(t.Context(), false, "", 10); err != nil || len(open) != 0 {
			t.Errorf("in force are %+v: %v", open, err)
		}
		if ended, _, err := all.Page(t.Context(), true, "", 10); err != nil || len(ended) != 1 {
			t.Errorf("with those that ended there are %+v: %v", ended, err)
		}
		trail, _, err := NewAudit(db).Page(t.Context(), corebot.AuditFilter{}, "", 10)
		if err != nil || len(trail) != 2 || trail[0].Event != "console.revoke" || trail[0].Principal.ID != "me" ||
			trail[1].Event != "console.login" {
			t.Errorf("the trail is %+v: %v", trail, err)
		}
	})
}

func TestSamplesAreOfADayAndRideInCommits(t *testing.T) {
	onConsole(t, func(t *testing.T, db *DB, all *Console) {
		commit := func() {
			t.Helper()
			_, err := all.AddLink(t.Context(), digestOf("code"))
			must(t, err)
		}
		began := time.Now()
		for range 30 { // two in each span of a sample
			time.Sleep(sampleEvery / 2)
			publishTest(t, db, "a", fmt.Sprint(time.Now().UnixNano()))
		}
		found, err := NewSamples(db).Since(t.Context(), began)
		if err != nil || len(found) != 15 {
			t.Fatalf("there are %d samples: %v", len(found), err)
		}
		for i, s := range found[1:] {
			if s.At.Sub(found[i].At) < sampleEvery || s.Waiting <= found[i].Waiting || s.Memory <= 0 {
				t.Errorf("behind %+v there is %+v", found[i], s)
			}
		}
		if rest, err := NewSamples(db).Since(t.Context(), found[13].At); err != nil || len(rest) != 1 {
			t.Errorf("behind the last but one there are %+v: %v", rest, err)
		}
		time.Sleep(12 * time.Hour) // nothing happens
		idle, err := NewSamples(db).Since(t.Context(), began)
		if err != nil || len(idle) != len(found) {
			t.Errorf("an idle Corebot has written %d samples: %v", len(idle)-len(found), err)
		}
		time.Sleep(samplesKept)
		commit()
		if left, err := NewSamples(db).Since(t.Context(), began); err != nil || len(left) != 1 {
			t.Errorf("after a day there are %+v: %v", left, err)
		}
	})
}
