package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_delete.md
var deleteDoc string

type deleteArgs struct {
	Path string `json:"path" jsonschema:"the file, in the workspace, or an absolute path"`
}

// Delete takes away one file. A second run finds nothing, and says the same thing of the workspace: the file is not
// there.
func Delete(reach *roots.Reach) tools.Tool {
	return tools.New("fs.delete", deleteDoc, tools.Idempotent, func(_ context.Context, c tools.Call,
		a deleteArgs,
	) (string, error) {
		err := change(reach, a.Path, func(root *rootfs.Root, clean string) error {
			if c.Approved == "" {
				return root.Remove(clean)
			}
			return root.RemoveIf(clean, tools.MaxApproved, c.Unchanged)
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("there is no file %s", a.Path), nil
		case err != nil:
			return "", err
		}
		return "deleted " + a.Path, nil
	}, tools.Touches(func(_ tools.Call, a deleteArgs) policy.Target { return writes(a.Path) }),
		tools.Changes(func(_ tools.Call, a deleteArgs) tools.Change {
			return tools.Change{Path: a.Path, Deletes: true}
		}))
}
