package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

const (
	refusedName = 128     // bytes of a made-up tool's name in the row of a refused call
	refusedArgs = 8 << 10 // bytes of its arguments there
)

// refuse ends a call that does not come as far as its tool. Like every other it is counted and leaves its row.
func (s *Service) refuse(ctx context.Context, c Call, why string) (Result, error) {
	who, began := s.caller(c.Args), time.Now()
	role, err := s.store.Roles.RoleOf(ctx, who.Principal, who.Key)
	if err != nil {
		return Result{}, fmt.Errorf("read the role of %s: %w", who.Principal, err)
	}
	err = s.store.Trail.Note(ctx, corebot.AuditEvent{
		At: began, Event: "tool.result", Tool: s.nameInAudit(c.Tool), Key: who.Key, Principal: who.Principal, Role: role,
		Entry: who.Entry.Word(), Outcome: corebot.OutcomeInvalidArgs, Args: s.opts.Redactor.Args(c.Args, refusedArgs),
	})
	if err != nil {
		return Result{}, fmt.Errorf("note a refused call of %s: %w", who.Principal, err)
	}
	s.metrics.count(c.Tool, string(corebot.OutcomeInvalidArgs), time.Since(began))
	return Result{Text: "invalid_args: " + why, Failed: true}, nil
}

// nameInAudit is a tool's name as the rows of other calls have it.
func (s *Service) nameInAudit(tool string) string {
	for _, t := range s.catalog {
		if t.Name == tool {
			return t.internal
		}
	}
	return strings.ToValidUTF8(tool[:min(len(tool), refusedName)], "\uFFFD")
}
