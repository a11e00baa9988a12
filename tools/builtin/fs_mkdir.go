package builtin

import (
	"context"
	_ "embed"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_mkdir.md
var mkdirDoc string

type mkdirArgs struct {
	Path string `json:"path" jsonschema:"the directory, in the workspace, or an absolute path"`
}

// Mkdir makes a directory. A second run finds it there.
func Mkdir(reach *roots.Reach) tools.Tool {
	return tools.New("fs.mkdir", mkdirDoc, tools.Idempotent, func(_ context.Context, _ tools.Call,
		a mkdirArgs,
	) (string, error) {
		err := change(reach, a.Path, func(root *rootfs.Root, clean string) error { return root.Mkdir(clean) })
		if err != nil {
			return "", err
		}
		return "there is a directory " + a.Path, nil
	}, tools.Touches(func(_ tools.Call, a mkdirArgs) policy.Target { return writes(a.Path) }),
		tools.Changes(func(_ tools.Call, a mkdirArgs) tools.Change { return tools.Change{Path: a.Path, Dir: true} }))
}
