package operate

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backup"
	"github.com/corebot/corebot/internal/control"
)

// Backups makes backups of the home.
type Backups interface {
	// Make makes a backup in a directory that is not there yet. An empty path means the directory of backups.
	Make(ctx context.Context, to string) (backup.Made, error)
}

// MakeBackup makes a backup of the home.
var MakeBackup = changes("db.backup", (*Service).MakeBackup)

// BackupOrder asks for a backup.
type BackupOrder struct {
	To string `json:"to,omitempty"` // an absolute path; empty: a directory of its own where backups are kept
}

// MakeBackup makes a backup, which is whole and on disk then. It is given up when its caller goes, or Corebot stops.
func (s *Service) MakeBackup(ctx context.Context, o BackupOrder) (backup.Made, error) {
	if o.To != "" && !filepath.IsAbs(o.To) { // relative to whose directory?
		return backup.Made{}, fmt.Errorf("%w: the place of a backup is an absolute path", corebot.ErrInvalid)
	}
	ctx, cancel := control.UntilStop(ctx)
	defer cancel()
	return s.stores.Backups.Make(ctx, o.To)
}
