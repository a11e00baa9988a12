package builtin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// page is the page of a scope. Policy lets only these two scopes through; the chat's own page is the harmless default.
func page(c tools.Call, scope string) memory.Page {
	if scope == policy.ScopeGlobal {
		return memory.Global
	}
	return memory.Chat(c.Key)
}

// origin says where the text of a call comes from.
func origin(c tools.Call) corebot.MemoryNote {
	return corebot.MemoryNote{Sender: c.Principal, MessageID: c.MessageID, Taint: c.Taint, At: time.Now()}
}

// chatMemory shows the page of a chat: what taints nobody, and behind that what others can have written.
func chatMemory(ctx context.Context, c tools.Call, pages *memory.Store) (text string, outside bool, err error) {
	pieces, whole, err := pages.Pieces(ctx, c.Key)
	if err == nil && !whole {
		err = corebot.WithHint(fmt.Errorf("read memory: the page of this chat %w", rootfs.ErrTooLarge),
			"read "+string(memory.Chat(c.Key))+" piece by piece as a file, then replace the page by a shorter one")
	}
	if err != nil {
		return "", false, err
	}
	var own, apart strings.Builder
	why := ""
	for _, p := range pieces {
		if p.CleanFor(c.Principal) {
			own.WriteString(p.Text)
			continue
		}
		if is := reservation(p.MemoryNote); is != why {
			fmt.Fprintf(&apart, "[kept apart: %s]\n", is)
			why = is
		}
		apart.WriteString(p.Text)
	}
	return strings.ToValidUTF8(own.String()+apart.String(), "\uFFFD"), apart.Len() > 0, nil
}

// reservation says why a piece of memory is not taken for what the reader himself said.
func reservation(n corebot.MemoryNote) string {
	switch {
	case n.Taint == memory.Unknown:
		return n.Taint
	case n.Taint != "":
		return "its turn had read text from outside (" + n.Taint + ")"
	}
	return "somebody else said it"
}
