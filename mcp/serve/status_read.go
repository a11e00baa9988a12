package serve

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot/tools"
)

//go:embed status_read.md
var statusReadDoc string

// statusRead shows what waits, runs and died.
func (s *Service) statusRead() tools.Tool {
	return tools.New("status.read", statusReadDoc, tools.ReadOnly|tools.Privileged,
		func(ctx context.Context, _ tools.Call, _ struct{}) (string, error) {
			status, err := s.opts.Status(ctx)
			if err != nil {
				return "", fmt.Errorf("read the status: %w", err)
			}
			return s.encode(status)
		})
}
