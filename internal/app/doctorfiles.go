package app

import (
	"context"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

const (
	nearShare = 80 // per cent of a limit: a sender who takes that much is shown
	nearShown = 10 // senders
)

// checkSenderFiles shows the senders whose files in the folders of chats take nearly as much as they can.
func checkSenderFiles(ctx context.Context, home string, c config.Tools) []Finding {
	if c.SenderFilesBytes == 0 && c.SenderFiles == 0 {
		return nil
	}
	db, err := storage.OpenReader(ctx, DataDir(home))
	if err != nil {
		return nil // said of the database already
	}
	defer db.Close() //nolint:errcheck // only read
	least := corebot.FileSum{Bytes: c.SenderFilesBytes * nearShare / 100, Entries: int64(c.SenderFiles) * nearShare / 100}
	near, err := storage.NewFileCharges(db).Most(ctx, least, nearShown)
	if err != nil {
		return []Finding{fail("the files of senders", err)}
	}
	var findings []Finding
	for _, n := range near {
		who := n.Principal.String()
		if n.Chat != "" {
			who = "senders without an id in " + n.Chat
		}
		hint := "let them delete files, remove files in workspace/chats, or raise " + strings.Join(nearKeys(n, least), " and ")
		findings = append(findings, warn(hint, "the files of %s take %d KiB in %d entries, in %d chats", who, n.Bytes>>10, n.Entries, n.Chats))
	}
	if len(findings) == 0 {
		findings = append(findings, ok("no sender's files take %d %% of tools.sender_files_bytes or tools.sender_files",
			nearShare))
	}
	return findings
}

func nearKeys(n corebot.FileCharge, least corebot.FileSum) (keys []string) {
	if least.Bytes > 0 && n.Bytes >= least.Bytes {
		keys = append(keys, "tools.sender_files_bytes")
	}
	if least.Entries > 0 && n.Entries >= least.Entries {
		keys = append(keys, "tools.sender_files")
	}
	return keys
}
