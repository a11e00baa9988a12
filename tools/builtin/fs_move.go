package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"path"

	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_move.md
var moveDoc string

type moveArgs struct {
	From      string `json:"from" jsonschema:"the file or directory, in the workspace, or an absolute path"`
	To        string `json:"to" jsonschema:"its new path, in the workspace, or an absolute path"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace a file that is at the new path already"`
}

// Move gives a file or directory another path. Run twice it would fail, or move another file, so it is not run again
// after a crash.
func Move(reach *roots.Reach) tools.Tool {
	return tools.New("fs.move", moveDoc, tools.SideEffect, func(_ context.Context, c tools.Call,
		a moveArgs,
	) (string, error) {
		err := reach.Move(a.From, a.To, a.Overwrite, c.Unmoved(a.From, a.To))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("moved %s to %s", a.From, path.Clean(a.To)), nil
	}, tools.Touches(func(_ tools.Call, a moveArgs) policy.Target {
		return policy.Target{Path: a.To, From: a.From, Write: true}
	}),
		tools.Changes(func(_ tools.Call, a moveArgs) tools.Change { return tools.Change{Path: a.To, From: a.From} }))
}
