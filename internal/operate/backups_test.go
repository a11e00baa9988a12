package operate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/control"
)

// stuckBackups make a backup for as long as they may.
type stuckBackups struct{ began chan struct{} }

func (s stuckBackups) Make(ctx context.Context, _ string) (backup.Made, error) {
	close(s.began)
	<-ctx.Done()
	return backup.Made{}, context.Cause(ctx)
}

func TestABackupEndsWhenCorebotStops(t *testing.T) {
	stuck := stuckBackups{make(chan struct{})}
	dir := t.TempDir()
	server, err := control.Listen(dir, Operations(New(Stores{Backups: stuck}), false))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	go func() {
		<-stuck.began
		stop()
	}()
	client, _, err := control.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = MakeBackup.Call(t.Context(), client, BackupOrder{})
	if !errors.Is(err, corebot.ErrClosed) || time.Since(began) > time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if err := errors.Join(<-ended, server.Close()); err != nil {
		t.Error(err)
	}
}
