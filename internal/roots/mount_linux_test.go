package roots_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
	"github.com/corebot/corebot/internal/roots"
)

// inNamespace runs a function where its mounts are its own. The thread that it runs on ends with it.
func inNamespace(t *testing.T, do func() error) {
	t.Helper()
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and is not unlocked
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = do()
		}
		ended <- err
	}()
	switch err := <-ended; {
	case errors.Is(err, unix.EPERM):
		needs.Missing(t, "mounts", err)
	case err != nil:
		t.Error(err)
	}
}

// TestASecondNameOfAClosedDirectoryIsRefused: no path shows what a bind mount is.
func TestASecondNameOfAClosedDirectoryIsRefused(t *testing.T) {
	dir := tree(t, "me/home/data/", "me/project/", "second/", "other/")
	inNamespace(t, func() error {
		for from, refused := range map[string]bool{"me/home": true, "me": true, "": true, "me/project": false} {
			if err := unix.Mount(dir+"/"+from, dir+"/second", "", unix.MS_BIND, ""); err != nil {
				return err
			}
			_, err := roots.NewList("", []roots.Dir{{Path: dir + "/second"}}, dir+"/me/home", dir+"/me/home/none yet")
			says := err == nil || strings.Contains(err.Error(), "me/home in it")
			if errors.Is(err, corebot.ErrInvalid) != refused || !says {
				t.Errorf("a second name of %q: %v", from, err)
			}
			if err := unix.Unmount(dir+"/second", 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestADirectoryThatIsExchangedWhileItIsOpenedIsNotOpened plays the race until it is won. Then the directory was
// looked at first, and a link to a closed directory had its name at the time of the opening.
func TestADirectoryThatIsExchangedWhileItIsOpenedIsNotOpened(t *testing.T) {
	dir := tree(t, "project/a", "home/secret")
	list, err := roots.NewList("", []roots.Dir{{Path: dir + "/project", Write: true}}, dir+"/home")
	must(t, err)
	must(t, os.Symlink(dir+"/home", dir+"/other"))
	over, swapped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				swapped <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/project", unix.AT_FDCWD, dir+"/other",
				unix.RENAME_EXCHANGE); err != nil {
				swapped <- fmt.Errorf("exchange: %w", err)
				return
			}
		}
	}()
	noticed := false
	for range 200_000 {
		disk := roots.NewDisk(list, dir+"/home")
		root, _, err := roots.NewReach(nil, disk).At(dir + "/project")
		if err == nil {
			if _, err := root.Stat("secret"); err == nil {
				t.Error("the closed directory was opened")
			}
		}
		must(t, disk.Close())
		if noticed = err != nil && strings.Contains(err.Error(), "exchanged meanwhile"); noticed || t.Failed() {
			break
		}
	}
	close(over)
	must(t, <-swapped)
	if !noticed {
		t.Error("the race was never won")
	}
}
